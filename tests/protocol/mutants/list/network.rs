//! Ways to a server: its addresses, the proxies before them, and the files that name them.

use super::*;

pub const MUTANTS: &[Mutant] = &[
    // ---- which address ----
    Mutant {
        name: "the first address of a host has all the time",
        why: "each dial waits for one that is dead, and nobody leads",
        edits: &[Edit {
            file: DIAL,
            old: "if tried < addresses.len() && Instant::now() >= next_start {",
            new: "if tried < addresses.len() && tried == failed {",
        }],
        caught_by: Unit("net::dial::tests::an_address_that_is_silent_does_not_keep_the_next_one_waiting"),
    },
    Mutant {
        name: "all addresses of a host are tried at once",
        why: "every dial costs each server of the cluster a connection",
        edits: &[Edit {
            file: DIAL,
            old: "next_start = Instant::now() + STAGGER;",
            new: "next_start = Instant::now();",
        }],
        caught_by: Unit("net::dial::tests::an_address_that_is_silent_does_not_keep_the_next_one_waiting"),
    },
    Mutant {
        name: "an address that refuses has its time nevertheless",
        why: "a cluster whose other servers are up is reached seconds later",
        edits: &[Edit {
            file: DIAL,
            old: "                        failure.get_or_insert(e);\n                        next_start = Instant::now();\n",
            new: "                        failure.get_or_insert(e);\n",
        }],
        caught_by: Unit("net::dial::tests::after_a_refusal_the_next_address_is_tried_at_once"),
    },
    Mutant {
        name: "attempts go on after a connection is there",
        why: "each dial leaves a thread and a socket behind",
        edits: &[Edit { file: DIAL, old: "        self.0.cancel();\n", new: "        let _ = &self.0;\n" }],
        caught_by: Unit("net::dial::tests::an_address_that_is_silent_does_not_keep_the_next_one_waiting"),
    },
    Mutant {
        name: "a connect is not called off",
        why: "each dial leaves a thread and a socket behind",
        edits: &[Edit {
            file: NETWORK,
            old: "                if cancelled.is_cancelled() {",
            new: "                if false && cancelled.is_cancelled() {",
        }],
        caught_by: Unit("net::dial::tests::a_connect_that_is_no_longer_wanted_ends"),
    },
    Mutant {
        name: "any number of threads may look up and connect",
        why: "a resolver that hangs fills the process with them",
        edits: &[Edit { file: DIAL, old: "(pending < MAX_PENDING).then_some(pending + 1)", new: "Some(pending + 1)" }],
        caught_by: Unit("net::dial::tests::a_hanging_look_up_ends_with_the_time_and_few_are_left_behind"),
    },
    Mutant {
        name: "the families of a host's addresses do not take turns",
        why: "with a broken IPv6 all of its addresses come first",
        edits: &[Edit {
            file: ROUTE,
            old: "partition(|a| a.is_ipv6() == preferred)",
            new: "partition(|a| a.is_ipv6() == preferred || true)",
        }],
        caught_by: Unit("net::dial::tests::a_dead_family_does_not_keep_the_other_one_waiting"),
    },
    Mutant {
        name: "the address that answered is not remembered",
        why: "each dial begins with the dead one",
        edits: &[Edit { file: ROUTE, old: "            *self.remembered.0.lock() = Some(self.address);\n", new: "" }],
        caught_by: Unit(
            "kube::tests::addresses::the_address_of_the_last_answer_is_tried_first_and_one_that_only_connects_is_not",
        ),
    },
    Mutant {
        name: "an address is remembered for being connected",
        why: "a server that hangs takes connections, and is asked first for ever",
        edits: &[Edit {
            file: ROUTE,
            old: "        Route { address, remembered: self.clone(), interrupter: interrupter.clone(), has_answered: false }",
            new: "        *self.0.lock() = Some(address);\n        Route { address, remembered: self.clone(), interrupter: interrupter.clone(), has_answered: false }",
        }],
        caught_by: Unit(
            "net::dial::route::tests::the_address_that_answered_last_comes_first_until_it_brings_no_answer",
        ),
    },
    Mutant {
        name: "an address that brings no answer stays remembered",
        why: "a server that has begun to hang is asked first for ever",
        edits: &[Edit {
            file: ROUTE,
            old: "if !self.has_answered && *remembered == Some(self.address) && !self.interrupter.is_interrupted() {",
            new: "if false && *remembered == Some(self.address) && !self.interrupter.is_interrupted() {",
        }],
        caught_by: Unit(
            "net::dial::route::tests::the_address_that_answered_last_comes_first_until_it_brings_no_answer",
        ),
    },
    Mutant {
        name: "the zone of an address is not dialled",
        why: "a link-local server is on no interface",
        edits: &[Edit {
            file: ENDPOINT,
            old: "Some(zone) => format!(\"{}%{zone}\", self.host),",
            new: "Some(_) => self.host.clone(),",
        }],
        caught_by: Unit("net::endpoint::tests::a_zone_is_for_this_machine_only"),
    },
    // ---- proxies ----
    Mutant {
        name: "a connection to a proxy cannot be interrupted",
        why: "an elector that stops waits for a proxy that hangs",
        edits: &[Edit {
            file: TRANSPORT,
            old: "        (details.register_shutdown)(weak as Weak<dyn ShutdownHandle>)?;",
            new: "        if self.proxy.is_none() {\n            (details.register_shutdown)(weak as Weak<dyn ShutdownHandle>)?;\n        }",
        }],
        caught_by: Unit("kube::tests::proxy::to_cancel_ends_a_proxy_that_is_silent_at_any_point"),
    },
    Mutant {
        name: "what stands after the answer to CONNECT is thrown away",
        why: "it was sent to pass for an answer of the server",
        edits: &[Edit {
            file: CONNECT,
            old: "Some(200..=299) if end == answer.len() => Ok(()),",
            new: "Some(200..=299) if end <= answer.len() => Ok(()),",
        }],
        caught_by: Unit("net::proxy::connect::tests::an_answer_is_read_to_its_end_and_no_further"),
    },
    Mutant {
        name: "what a proxy sends early is kept",
        why: "it passes for the answer of the server",
        edits: &[Edit {
            file: PROXY,
            old: "match connection.get_mut().buffers().input().is_empty() {",
            new: "match true {",
        }],
        caught_by: Unit("kube::tests::proxy::what_a_proxy_sends_beyond_its_answer_is_no_answer_of_the_server"),
    },
    Mutant {
        name: "an answer to CONNECT may be of any length",
        why: "a proxy fills the memory",
        edits: &[Edit { file: CONNECT, old: "if n == 0 || answer.len() > MAX_ANSWER {", new: "if n == 0 {" }],
        caught_by: Unit("net::proxy::connect::tests::an_answer_without_end_is_cut"),
    },
    Mutant {
        name: "a proxy's password ends at its first @",
        why: "a part of it is looked up as a host, and shown",
        edits: &[Edit {
            file: PROXY,
            old: "rest[..authority_end].rsplit_once('@')",
            new: "rest[..authority_end].split_once('@')",
        }],
        caught_by: Unit("net::proxy::tests::credentials_are_decoded_and_hidden"),
    },
    Mutant {
        name: "a proxy in the environment must be usable for everybody",
        why: "a variable that is meant for others stops the program",
        edits: &[Edit {
            file: ENV_PROXY,
            old: "    let is_exempt = |list: OsString|",
            new: "    Proxy::parse(&url.to_string_lossy(), name)?;\n    let is_exempt = |list: OsString|",
        }],
        caught_by: Unit(
            "kube::config::proxy::tests::an_unusable_value_in_the_environment_is_an_error_only_for_who_would_use_it",
        ),
    },
    Mutant {
        name: "NO_PROXY exempts addresses by their ends",
        why: "what may only be reached through the proxy is dialled",
        edits: &[Edit { file: EXEMPT, old: "if address.is_some() {", new: "if false && address.is_some() {" }],
        caught_by: Unit("kube::config::proxy::tests::the_environment_is_followed_as_go_does"),
    },
    Mutant {
        name: "a refusal of a SOCKS proxy is taken for a tunnel",
        why: "the request is sent to nobody",
        edits: &[Edit { file: SOCKS, old: "    if reply != 0 {", new: "    if false && reply != 0 {" }],
        caught_by: Unit("net::proxy::socks::tests::what_goes_wrong_is_told_without_the_password"),
    },
    Mutant {
        name: "a SOCKS proxy may choose any login",
        why: "it is sent a password that it does not ask for",
        edits: &[Edit {
            file: SOCKS,
            old: "        (LOGIN, Some(login)) => log_in(proxy, login)?,",
            new: "        (_, Some(login)) => log_in(proxy, login)?,",
        }],
        caught_by: Unit("net::proxy::socks::tests::what_goes_wrong_is_told_without_the_password"),
    },
    Mutant {
        name: "a proxy must bear the name that is expected of the server",
        why: "with tls-server-name no https proxy works",
        edits: &[Edit {
            file: TLS,
            old: "server_name: None, identity: None, ..self.clone()",
            new: "identity: None, ..self.clone()",
        }],
        caught_by: Unit("kube::tests::proxy::the_certificate_of_a_proxy_is_for_its_own_name_and_from_an_authority"),
    },
    Mutant {
        name: "a proxy is shown the client certificate",
        why: "who we are in the cluster is told to whom it does not concern",
        edits: &[Edit {
            file: TLS,
            old: "server_name: None, identity: None, ..self.clone()",
            new: "server_name: None, ..self.clone()",
        }],
        caught_by: Unit("kube::tests::proxy::a_proxy_is_not_shown_the_client_certificate_and_the_server_is"),
    },
    Mutant {
        name: "the system's authorities do not vouch for a proxy",
        why: "a proxy with a public certificate is refused beside a cluster's own authority",
        edits: &[Edit { file: TLS, old: "if self.and_system {", new: "if self.and_system && self.insecure {" }],
        caught_by: Unit("kube::tests::proxy::the_authorities_of_the_cluster_and_of_the_system_vouch_for_a_proxy"),
    },
    // ---- kubeconfigs ----
    Mutant {
        name: "UTF-16 of one order is read as the other",
        why: "what PowerShell writes is none",
        edits: &[Edit {
            file: ENCODING,
            old: "[0xFF, 0xFE, rest @ ..] => utf16(rest, u16::from_le_bytes),",
            new: "[0xFF, 0xFE, rest @ ..] => utf16(rest, u16::from_be_bytes),",
        }],
        caught_by: Unit("kube::config::kubeconfig::tests::every_encoding_with_a_byte_order_mark_is_read"),
    },
    Mutant {
        name: "UTF-16 is cut at an odd end",
        why: "half of a file passes for the whole",
        edits: &[Edit {
            file: ENCODING,
            old: "    let (pairs, []) = bytes.as_chunks() else {\n        return Err(\"is not UTF-16 text, which its byte order mark promises\");\n    };",
            new: "    let (pairs, _) = bytes.as_chunks();",
        }],
        caught_by: Unit("kube::config::kubeconfig::tests::every_encoding_with_a_byte_order_mark_is_read"),
    },
    Mutant {
        name: "not to verify is accepted beside an authority",
        why: "whoever set the authority believes that it is asked",
        edits: &[Edit {
            file: RESOLVE,
            old: "            if self.insecure() {\n                return Err(",
            new: "            if false && self.insecure() {\n                return Err(",
        }],
        caught_by: Unit(
            "kube::config::kubeconfig::tests::to_verify_by_an_authority_and_not_to_verify_at_all_is_a_contradiction",
        ),
    },
];
