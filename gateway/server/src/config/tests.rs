//! The configuration as a whole: what is refused, and how; what is served when nothing is said.

use super::*;

fn load_text(text: &str) -> Result<Config, String> {
    load_with(text, &[])
}

fn load_with(text: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
    let variables = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    parse(Some((Path::new("f.toml"), text)), variables).map_err(|error| error.to_string())
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    assert_eq!(load_text(text).unwrap_err(), expected, "{text}");
}

#[test]
fn without_a_configuration_every_name_is_on_one_store() {
    let config = parse(None, []).unwrap();
    assert_eq!(config.connections.len(), 1);
    assert_eq!(config.connections[0].adapter, "sql");
    assert_eq!(config.destinations.len(), 1);
    assert_eq!(config.destinations[0].pattern, "*");
    assert!(config.destinations[0].is_pattern());
    assert_eq!(config.top.listen.0.unwrap().to_string(), "127.0.0.1:7077");
}

#[test]
fn a_file_about_something_else_leaves_the_default_store_in_place() {
    let config = load_text("listen = \"127.0.0.1:0\"").unwrap();
    assert_eq!(config.connections[0].name, "main");
    let config = load_with("", &[("SLUICEGATE_CONNECTIONS__MAIN__PATH", "/x.db")]).unwrap();
    assert_eq!(config.connections.len(), 1);
    assert_eq!(config.connections[0].settings[0].key, "path");
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_its_neighbour() {
    refused(
        "\nlisten_on = \"x\"",
        "f.toml:2: listen_on: unknown key; did you mean \"listen\"?",
    );
    refused(
        "[limits]\nframe_byte = 5",
        "f.toml:2: limits.frame_byte: unknown key; did you mean \"frame_bytes\"?",
    );
    refused(
        "[conections.main]\nadapter = \"sql\"",
        "f.toml:1: conections: unknown key; did you mean \"connections\"?",
    );
}

#[test]
fn a_destination_given_twice_is_refused() {
    refused(
        "[connections.m]\nadapter = \"sql\"\n[destinations.a]\n[destinations.a]\n",
        "f.toml:4: destinations.a: it is given twice; keep one of the two, or give them different names",
    );
    refused(
        "[connections.m]\nadapter = \"sql\"\n[destinations.\"a.*\"]\n[destinations.\"a.**\"]\n",
        "f.toml:4: destinations.\"a.**\": it matches the same names as \"a.*\" (f.toml:3); keep one \
         of the two",
    );
}

#[test]
fn a_destination_on_an_unknown_connection_is_refused() {
    refused(
        "[connections.main]\nadapter = \"sql\"\n[destinations.a]\nconnection = \"mian\"\n",
        "f.toml:4: destinations.a.connection: there is no connection \"mian\"; did you mean \"main\"?",
    );
}

#[test]
fn a_destination_may_leave_out_its_connection_only_where_there_is_one() {
    let one = "[connections.main]\nadapter = \"sql\"\n[destinations.a]\n";
    assert_eq!(load_text(one).unwrap().destinations[0].connection, 0);
    refused(
        &format!("{one}[connections.other]\nadapter = \"null\"\n"),
        "f.toml:3: destinations.a.connection: it is missing, and there is not just one; name the \
         destination's connection",
    );
}

#[test]
fn an_address_that_is_none_is_refused() {
    refused(
        "listen = \"localhost\"",
        "f.toml:1: listen: \"localhost\" is no address to listen on; write an IP address and a port, \
         such as \"127.0.0.1:7077\" or \"[::1]:7077\"",
    );
}

#[test]
fn a_gateway_that_nobody_can_reach_is_refused() {
    let error = load_text("listen = \"\"").unwrap_err();
    assert!(error.contains("listen: nobody could connect"), "{error}");
    assert!(load_text("listen = \"\"\nunix_socket = \"/x\"").is_ok());
}

#[test]
fn a_wrong_type_is_refused() {
    refused(
        "[limits]\nframe_bytes = \"5\"",
        "f.toml:2: limits.frame_bytes: it is a text; write a whole number without quotes",
    );
    refused(
        "limits = 5",
        "f.toml:1: limits: it is an integer; write a table: [limits]",
    );
    refused(
        "[connections]\nmain = \"sql\"",
        "f.toml:2: connections.main: it is a text; write a table: [connections.main]",
    );
}

#[test]
fn a_window_of_nothing_is_refused() {
    refused(
        "[connections.m]\nadapter = \"sql\"\nwindow = 0\n[destinations.a]\n",
        "f.toml:3: connections.m.window: it is 0; write 1 or more",
    );
}

#[test]
fn a_connection_without_an_adapter_is_refused() {
    refused(
        "[connections.m]\n[destinations.a]\n",
        "f.toml:1: connections.m.adapter: it is missing; name the adapter: adapter = \"sql\"; \
         `sluicegate adapters` lists them",
    );
}

#[test]
fn a_configuration_that_serves_nothing_is_refused() {
    let error = load_text("[connections.m]\nadapter = \"sql\"").unwrap_err();
    assert!(error.contains("destinations: there are none"), "{error}");
}

#[test]
fn limits_that_nothing_could_pass_are_refused() {
    refused(
        "[limits]\nframe_bytes = 0",
        "f.toml:2: limits.frame_bytes: 0 is too little for a message; write 1024 or more",
    );
    refused(
        "[limits]\nmemory_bytes = 5",
        "f.toml:2: limits.memory_bytes: 5 is too little for one frame (limits.frame_bytes); write \
         4194304 or more",
    );
}

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let error = load_text("listen = 5\nfoo = 1\n[log]\nformat = \"xml\"").unwrap_err();
    assert_eq!(error.lines().count(), 3, "{error}");
}

#[test]
fn an_error_in_a_variable_names_the_variable() {
    let error = load_with("", &[("SLUICEGATE_LISTN", "x")]).unwrap_err();
    assert_eq!(
        error,
        "environment variable SLUICEGATE_LISTN: listn: unknown key; did you mean \"listen\"?"
    );
    let error = load_with("", &[("SLUICEGATE_LIMITS__FRAME_BYTES", "many")]).unwrap_err();
    assert!(
        error.starts_with("environment variable SLUICEGATE_LIMITS__FRAME_BYTES: "),
        "{error}"
    );
}

#[test]
fn the_printed_default_reads_back_as_the_built_in_one() {
    let setting = |key: &str, default: Option<&str>| KnownSetting {
        key: key.to_owned(),
        summary: format!("The {key}."),
        default: default.map(str::to_owned),
        required: false,
        secret: key == "password",
    };
    let adapters = [
        AdapterReference {
            name: "sql".to_owned(),
            summary: "Tables.".to_owned(),
            connection: vec![
                setting("path", Some("./sluicegate.db")),
                setting("password", None),
            ],
            destination: vec![
                setting("create_table", Some("true")),
                setting("queue", None),
            ],
        },
        AdapterReference {
            name: "null".to_owned(),
            summary: "Nothing.".to_owned(),
            connection: vec![setting("stall", Some("false"))],
            destination: vec![],
        },
    ];
    let text = reference(&adapters);
    let printed = load_text(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let built_in = parse(None, []).unwrap();
    assert_eq!(printed.top, built_in.top);
    assert_eq!(printed.adapters, built_in.adapters);
    assert_eq!(printed.limits, built_in.limits);
    assert_eq!(printed.log, built_in.log);
    assert_eq!(printed.shutdown, built_in.shutdown);
    assert_eq!(printed.connections.len(), 1);
    assert_eq!(
        printed.connections[0].window,
        built_in.connections[0].window
    );
    assert_eq!(printed.destinations.len(), 1);
    assert_eq!(printed.destinations[0].keys, built_in.destinations[0].keys);

    // What the printed file says about the store is what its adapter does by itself.
    let settle_all = |given: &[Given], known: &[KnownSetting]| {
        let mut problems = Vec::new();
        let settled = settle(given, known, &[], "x", &Origin::Default, &mut problems);
        assert_eq!(problems, []);
        settled.plain
    };
    let connection = settle_all(&printed.connections[0].settings, &adapters[0].connection);
    assert_eq!(
        connection.get("path").map(String::as_str),
        Some("./sluicegate.db")
    );
    let destination = settle_all(&printed.destinations[0].settings, &adapters[0].destination);
    assert_eq!(
        destination.get("create_table").map(String::as_str),
        Some("true")
    );
}
