//! `sluicegate publish`: the shell's client. A line is a message; every message's verdict is counted,
//! and every one that is not confirmed is shown.
//!
//! Reading, publishing and showing go on at the same time, so a file may be larger than memory and a
//! pipe may never end.

use std::cell::RefCell;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use sluicegate_client::{Client, Error, Message, RowFailure, Scope, ScopeOptions, Verdicts};
use tokio::sync::mpsc;

use crate::failure::Failure;
use crate::print;

/// Lines that go into one call: enough to fill frames, few enough that the first of a slow pipe do not
/// wait for the last.
const CHUNK_LINES: usize = 500;
/// Bytes after which a chunk is passed on, so that a few long lines are not held up either.
const CHUNK_BYTES: usize = 256 * 1024;
/// Chunks read ahead of the gateway.
const CHUNKS_AHEAD: usize = 4;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The destination's name.
    destination: String,
    /// A file, or - for stdin. Each line is a message, without its line feed: any bytes, also none,
    /// and a carriage return is one of them.
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Where the gateway listens: HOST:PORT, http://HOST:PORT or unix:PATH.
    #[arg(long, env = "SLUICEGATE_ADDRESS", default_value = "127.0.0.1:7077")]
    address: String,
    /// A key for all messages.
    #[arg(long)]
    key: Option<String>,
    /// A header for all messages. May be repeated.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// Shows where each message was stored.
    #[arg(long)]
    receipts: bool,
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE, with a name".to_owned()),
    }
}

/// Publishes, shows, counts.
pub(crate) async fn run(options: &Options) -> Result<ExitCode, Failure> {
    // Before anything is connected: a file that is not there is no matter for the gateway.
    let lines = open(&options.file)?;
    let client = Client::connect(url(&options.address))
        .await
        .map_err(anyhow::Error::from)?;
    let scope = client
        .scope_with(&ScopeOptions::new().receipts(options.receipts))
        .await
        .map_err(anyhow::Error::from)?;

    let (chunks, mut read) = mpsc::channel(CHUNKS_AHEAD);
    let template = Template {
        key: options.key.clone(),
        headers: options.headers.clone(),
    };
    let file = options.file.clone();
    // Its own thread, and not one that the runtime waits for: a terminal may never say another word.
    let reader = std::thread::spawn(move || read_lines(lines, &template, &chunks, &file));

    let refused = Refused::default();
    let publishing = async {
        let outcome = publish(&scope, &options.destination, &mut read, &refused).await;
        scope.finish();
        outcome
    };
    let showing = show(&scope, options.receipts, &refused);
    let (published, counts) = tokio::join!(publishing, showing);
    let mut counts = counts?;
    counts.failed += refused.count();
    let summary = format!(
        "{} {} to {}: {} confirmed, {} failed, {} unknown\n",
        counts.total(),
        if counts.total() == 1 {
            "message"
        } else {
            "messages"
        },
        options.destination,
        counts.confirmed,
        counts.failed,
        counts.unknown,
    );
    // Of nothing there is nothing to be told but why.
    if counts.total() > 0 {
        print::out(&summary)?;
    }
    // The stream's loss is the cause of what follows from it.
    published?;
    drop(read);
    match reader.join() {
        Ok(outcome) => outcome?,
        Err(_) => return Err(anyhow::anyhow!("the input's reader failed").into()),
    }
    if counts.total() == 0 {
        return Err(anyhow::anyhow!(
            "{} has no lines: nothing was published",
            options.file.display()
        )
        .into());
    }
    Ok(if counts.confirmed == counts.total() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn url(address: &str) -> String {
    if address.contains("://") || address.starts_with("unix:") {
        address.to_owned()
    } else {
        format!("http://{address}")
    }
}

type Input = BufReader<Box<dyn Read + Send>>;

fn open(file: &Path) -> anyhow::Result<Input> {
    let input: Box<dyn Read + Send> = if file == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        let cannot = || format!("{} cannot be read", file.display());
        let open = File::open(file).with_context(cannot)?;
        let is_directory = open.metadata().with_context(cannot)?.is_dir();
        anyhow::ensure!(
            !is_directory,
            "{}: it is a directory; name a file in it",
            cannot()
        );
        Box::new(open)
    };
    Ok(BufReader::with_capacity(CHUNK_BYTES, input))
}

/// What all messages of a run have in common.
#[derive(Clone, Debug)]
struct Template {
    key: Option<String>,
    headers: Vec<(String, String)>,
}

impl Template {
    fn message(&self, body: Vec<u8>) -> Message {
        let mut message = Message::new(body);
        if let Some(key) = &self.key {
            message = message.key(key.clone());
        }
        for (name, value) in &self.headers {
            message = message.header(name.clone(), value.clone());
        }
        message
    }
}

fn read_lines(
    mut lines: Input,
    template: &Template,
    chunks: &mpsc::Sender<Vec<Message>>,
    file: &Path,
) -> anyhow::Result<()> {
    let mut chunk = Vec::new();
    let mut bytes = 0;
    loop {
        let mut line = Vec::new();
        let read = lines
            .read_until(b'\n', &mut line)
            .with_context(|| format!("{} cannot be read further", file.display()))?;
        let ended = read == 0;
        if !ended {
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            bytes += line.len();
            chunk.push(template.message(line));
        }
        // What a pipe has brought is sent before it is asked for more.
        let full = chunk.len() >= CHUNK_LINES || bytes >= CHUNK_BYTES;
        let idle = !ended && !full && lines.buffer().is_empty();
        if !chunk.is_empty() && (full || ended || idle) {
            bytes = 0;
            if chunks.blocking_send(std::mem::take(&mut chunk)).is_err() {
                // Publishing failed, and says why.
                return Ok(());
            }
        }
        if ended {
            return Ok(());
        }
    }
}

/// Lines that are no rows of the scope, since no frame can carry them: counted from 0, ascending. What is
/// noted here was noted before any later line was published.
#[derive(Debug, Default)]
struct Refused(RefCell<Vec<u64>>);

impl Refused {
    /// The line of a row.
    fn line(&self, row: u64) -> u64 {
        let mut line = row;
        for refused in self.0.borrow().iter() {
            if *refused <= line {
                line += 1;
            }
        }
        line
    }

    fn note(&self, line: u64) {
        self.0.borrow_mut().push(line);
    }

    fn count(&self) -> u64 {
        self.0.borrow().len() as u64
    }
}

async fn publish(
    scope: &Scope,
    destination: &str,
    chunks: &mut mpsc::Receiver<Vec<Message>>,
    refused: &Refused,
) -> anyhow::Result<()> {
    let mut line = 0;
    while let Some(chunk) = chunks.recv().await {
        let mut rest = &chunk[..];
        while !rest.is_empty() {
            // What is too large fails alone: those before it are published without it, then those after.
            let (good, bad) = match scope.publish_many(destination, rest).await {
                Ok(_) => (rest.len(), None),
                Err(Error::TooLarge {
                    index,
                    bytes,
                    limit,
                    ..
                }) => {
                    let good = rest.get(..index).unwrap_or_default();
                    scope.publish_many(destination, good).await?;
                    (index, Some((bytes, limit)))
                }
                Err(error) => return Err(error.into()),
            };
            line += good as u64;
            rest = rest.get(good..).unwrap_or_default();
            if let Some((bytes, limit)) = bad {
                refused.note(line);
                line += 1;
                rest = rest.get(1..).unwrap_or_default();
                print::out(&format!(
                    "line {line}: failed TOO_LARGE: it takes {bytes} bytes, and a frame to this gateway carries \
                     {limit}: publish less in one line, or raise limits.frame_bytes in the gateway's \
                     configuration\n"
                ))?;
            }
        }
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Counts {
    confirmed: u64,
    failed: u64,
    unknown: u64,
}

impl Counts {
    fn total(&self) -> u64 {
        self.confirmed + self.failed + self.unknown
    }
}

async fn show(scope: &Scope, receipts: bool, refused: &Refused) -> anyhow::Result<Counts> {
    let mut counts = Counts::default();
    while let Some(verdicts) = scope.next_verdicts().await {
        let (failed, unknown) = (verdicts.failed.len() as u64, verdicts.unknown.len() as u64);
        counts.failed += failed;
        counts.unknown += unknown;
        counts.confirmed += verdicts.rows() - failed - unknown;
        print::out(&text(&verdicts, receipts, refused))?;
    }
    Ok(counts)
}

/// Lines count from 1, as editors do.
fn text(verdicts: &Verdicts, receipts: bool, refused: &Refused) -> String {
    let mut text = String::new();
    if receipts {
        for (row, receipt) in &verdicts.receipts {
            let receipt = String::from_utf8_lossy(receipt);
            text.push_str(&format!(
                "line {}: confirmed {receipt}\n",
                refused.line(*row) + 1
            ));
        }
    }
    for (word, failures) in [("failed", &verdicts.failed), ("unknown", &verdicts.unknown)] {
        for RowFailure { row, failure } in failures {
            text.push_str(&format!(
                "line {}: {word} {failure}\n",
                refused.line(*row) + 1
            ));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &[u8]) -> Vec<Message> {
        let (chunks, mut read) = mpsc::channel(64);
        let lines: Input = BufReader::new(Box::new(std::io::Cursor::new(input.to_vec())));
        let template = Template {
            key: None,
            headers: Vec::new(),
        };
        read_lines(lines, &template, &chunks, Path::new("-")).unwrap();
        drop(chunks);
        let mut messages = Vec::new();
        while let Some(chunk) = read.blocking_recv() {
            assert!(!chunk.is_empty());
            messages.extend(chunk);
        }
        messages
    }

    #[test]
    fn a_line_is_a_message_without_its_line_feed() {
        let bodies: Vec<_> = [&b"a"[..], b"", b"b\r", b"\xff"].map(Message::new).into();
        assert_eq!(read(b"a\n\nb\r\n\xff"), bodies);
        assert_eq!(read(b"a\n\nb\r\n\xff\n"), bodies);
    }

    #[test]
    fn no_input_is_no_message() {
        assert_eq!(read(b""), []);
    }

    #[test]
    fn many_lines_are_read_whole_and_in_order() {
        let text: String = (0..10_000).map(|n| format!("{n}\n")).collect();
        let expected: Vec<Message> = (0..10_000).map(|n| Message::new(n.to_string())).collect();
        assert_eq!(read(text.as_bytes()), expected);
    }

    #[test]
    fn an_address_may_leave_out_its_scheme() {
        assert_eq!(url("127.0.0.1:7077"), "http://127.0.0.1:7077");
        assert_eq!(url("unix:/run/s.sock"), "unix:/run/s.sock");
        assert_eq!(url("http://h:1"), "http://h:1");
    }

    #[test]
    fn a_header_needs_a_name() {
        assert!(header("=x").is_err());
        assert!(header("x").is_err());
        assert_eq!(header("a=b=c").unwrap(), ("a".to_owned(), "b=c".to_owned()));
    }
}
