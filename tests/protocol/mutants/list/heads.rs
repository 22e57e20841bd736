//! Heads of requests, what comes back on a connection, and what reading it may cost.

use super::*;

pub const MUTANTS: &[Mutant] = &[
    // ---- the head of a request ----
    Mutant {
        name: "a mask that is not found is sent",
        why: "the server is shown asterisks for credentials, and refuses them for ever",
        edits: &[Edit { file: MASK, old: "false => Err(misplaced()),", new: "false => Ok(Cow::Borrowed(output))," }],
        caught_by: Unit("net::redact::tests::a_mask_that_cannot_be_replaced_is_not_sent"),
    },
    Mutant {
        name: "a second mask is sent",
        why: "the server is shown asterisks for credentials",
        edits: &[Edit {
            file: MASK,
            old: "if hidden.replaced || split(after, &hidden.mask).is_some() {",
            new: "if hidden.replaced {",
        }],
        caught_by: Unit("net::redact::tests::a_mask_that_cannot_be_replaced_is_not_sent"),
    },
    Mutant {
        name: "a mask after the first is replaced as well",
        why: "credentials go to wherever the text of a mask stands",
        edits: &[Edit {
            file: MASK,
            old: "if hidden.replaced || split(after, &hidden.mask).is_some() {",
            new: "if split(after, &hidden.mask).is_some() {",
        }],
        caught_by: Unit("net::redact::tests::a_mask_that_cannot_be_replaced_is_not_sent"),
    },
    Mutant {
        name: "the mask may stand within a line",
        why: "the credentials go into another header, and the mask out",
        edits: &[Edit { file: MASK, old: "let mut mask = b\"\\r\\n\".to_vec();", new: "let mut mask = Vec::new();" }],
        caught_by: Unit("net::redact::tests::a_mask_is_replaced_where_the_header_is"),
    },
    Mutant {
        name: "the buffer does not grow with the head",
        why: "a long path comes before the mask in a piece of its own, and no request with it goes out",
        edits: &[Edit { file: MASK, old: "room: ROOM + target,", new: "room: ROOM," }],
        caught_by: Unit(
            "backends::kubernetes::client::tests::head::a_path_of_any_length_does_not_push_the_credentials_out_of_reach",
        ),
    },
    Mutant {
        name: "a head may have any length",
        why: "the server closes the connection, and nobody learns why",
        edits: &[Edit { file: MASK, old: "if length > MAX_HEAD {", new: "if length > 2 * MAX_HEAD {" }],
        caught_by: Unit("backends::kubernetes::client::tests::head::a_head_that_no_server_takes_is_not_sent"),
    },
    Mutant {
        name: "who is impersonated is left out without credentials",
        why: "a program with a client certificate acts as itself",
        edits: &[Edit {
            file: MASK,
            old: "None => others.first().map(|(name, _)| name.clone()),",
            new: "None => None,",
        }],
        caught_by: Unit(
            "backends::kubernetes::client::tests::head::groups_without_credentials_arrive_and_a_token_file_that_is_too_long_is_explained",
        ),
    },
    Mutant {
        name: "the HTTP library is given the credentials",
        why: "its log shows every byte that it writes",
        edits: &[
            Edit {
                file: OUTGOING,
                old: "let bytes = unmask(&self.output[..amount])",
                new: "let bytes = Ok::<_, super::error::Error>(&self.output[..amount])",
            },
            Edit {
                file: CLIENT,
                old: "        headers.extend(mask);\n",
                new: "        drop(mask);\n        headers.extend(credentials.authorization.clone().map(|value| (header::AUTHORIZATION, value)));\n",
            },
        ],
        caught_by: Test("client_log", "no_record_holds_a_part_of_a_token_however_long_the_head_is"),
    },
    // ---- what comes back ----
    Mutant {
        name: "what is left over in a TLS session is not looked at",
        why: "it passes for the answer to the next request",
        edits: &[Edit {
            file: TRANSPORT,
            old: "state.plaintext_bytes_to_read() == 0 && !state.peer_has_closed()",
            new: "!state.peer_has_closed()",
        }],
        caught_by: Unit(
            "backends::kubernetes::client::tests::tls::what_is_left_over_of_a_session_is_no_answer_to_the_next_request",
        ),
    },
    Mutant {
        name: "only the first echo of a credential is struck out",
        why: "an error page that shows the request twice puts it into the log",
        edits: &[Edit {
            file: ECHO,
            old: "                at += length;\n",
            new: "                at = text.len();\n",
        }],
        caught_by: Unit(
            "backends::kubernetes::client::auth::credentials::tests::every_echo_of_a_credential_is_struck_out",
        ),
    },
    Mutant {
        name: "a credential that comes back with an escape is not struck out",
        why: "an answer in JSON is read after that, and the credential stands in the log",
        edits: &[Edit { file: ECHO, old: "        [b'\\\\', escaped, ..] if *escaped == byte => Some(2),\n", new: "" }],
        caught_by: Unit(
            "backends::kubernetes::client::tests::http::a_credential_that_comes_back_is_not_shown_however_it_is_written",
        ),
    },
    // ---- what reading it may cost ----
    Mutant {
        name: "what JSON takes in memory is not counted",
        why: "an answer of 4 MiB takes half a gigabyte",
        edits: &[Edit { file: JSON, old: "self.left.checked_sub(bytes)", new: "self.left.checked_sub(0)" }],
        caught_by: Test("heap", "answers::an_answer_takes_less_than_16_mib_as_json"),
    },
    Mutant {
        name: "the nodes of an object are not counted",
        why: "an object of one member takes eighty times its text",
        edits: &[Edit { file: JSON, old: "1 => self.take(NODE)?,", new: "1 => {}" }],
        caught_by: Test("heap", "answers::a_lease_takes_less_than_16_mib"),
    },
    Mutant {
        name: "the places of an array are not counted",
        why: "an empty array in it takes ten times its text",
        edits: &[Edit {
            file: JSON,
            old: "self.take((larger - capacity) * ELEMENT)?;",
            new: "self.take(larger - capacity)?;",
        }],
        caught_by: Test("heap", "answers::a_watch_takes_less_than_16_mib"),
    },
    Mutant {
        name: "the buffer for escapes is not counted",
        why: "it is as large as the text, or twice as large",
        edits: &[Edit { file: JSON, old: "|| count.left < 2 * count.longest_escaped", new: "" }],
        caught_by: Unit("net::json::tests::every_kind_of_value_counts_up_to_the_limit"),
    },
    Mutant {
        name: "a refusal is read without a limit",
        why: "whoever refuses can make a client take what memory it has",
        edits: &[Edit {
            file: STATUS,
            old: "json::read::<Raw>(body, MAX_VALUES).ok()",
            new: "serde_json::from_slice::<Raw>(body).ok()",
        }],
        caught_by: Test("heap", "answers::a_refusal_takes_less_than_13_mib"),
    },
    Mutant {
        name: "an answer of any length is a lease",
        why: "a lease is small, and is held for as long as a program runs",
        edits: &[Edit { file: OBJECT, old: "match text.len() > LARGEST {", new: "match text.len() > 2 * LARGEST {" }],
        caught_by: Test("heap", "answers::what_is_longer_than_a_lease_is_refused"),
    },
    Mutant {
        name: "a long line is held twice",
        why: "a watch takes a multiple of what it reads",
        edits: &[Edit { file: LINES, old: "            line.shrink_to_fit();\n", new: "" }],
        caught_by: Unit("net::lines::tests::long_line_takes_no_more_memory_than_its_length"),
    },
    // ---- what is logged of it ----
    Mutant {
        name: "a warning is logged with each answer",
        why: "it repeats with every renewal",
        edits: &[Edit { file: REQUEST_LOG, old: " || warned.contains(&text)", new: "" }],
        caught_by: Test("client_log", "a_warning_is_logged_once_for_a_client_and_holds_no_secret"),
    },
    Mutant {
        name: "any number of warnings is remembered",
        why: "a server that varies its warnings fills memory and log",
        edits: &[Edit { file: REQUEST_LOG, old: "warned.len() == MAX_WARNINGS || ", new: "" }],
        caught_by: Test("client_log", "warnings_without_end_are_cut"),
    },
    Mutant {
        name: "a warning or an audit id may quote the credentials",
        why: "they stand in the log",
        edits: &[Edit { file: REQUEST_LOG, old: "    credentials.redact(&mut text);\n", new: "" }],
        caught_by: Test("client_log", "each_request_is_one_line_with_its_code_its_time_and_its_audit_id"),
    },
];
