//! Which servers a client trusts, what it shows of itself, and how it follows the files that say so.

use super::*;

const FILES: &str = "src/net/tls/files.rs";
const IN_CLUSTER: &str = "src/kube/config/in_cluster.rs";
const PINNED: &str = "src/net/tls/pinned.rs";
const PROVIDER: &str = "src/net/tls/provider.rs";
const RELOAD: &str = "src/net/tls/reload.rs";
const RESOLVE: &str = "src/kube/config/kubeconfig/resolve.rs";
const VERIFY: &str = "src/net/tls/verify.rs";

const OWNERSHIP: Check =
    Unit("kube::tests::trust::a_server_that_does_not_own_the_key_of_its_certificate_is_not_trusted_whatever_is");
const SIGNS: Check = Unit("kube::tests::trust::a_configured_certificate_that_is_no_authority_signs_no_other");
const TERMS: Check = Unit("kube::tests::trust::a_configured_certificate_is_for_its_name_its_time_and_its_purpose");
const AFTER_A_MINUTE: Check = Unit(
    "kube::tests::rotation::an_identity_that_was_replaced_is_used_after_a_minute_on_a_new_connection_and_a_watch_goes_on",
);

pub const MUTANTS: &[Mutant] = &[
    // ---- trust ----
    Mutant {
        name: "insecure: whose key it is goes unchecked, in TLS 1.2",
        why: "a recorded certificate is enough to stand in for the server",
        edits: &[Edit {
            file: VERIFY,
            old: "verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)",
            new: "Ok(HandshakeSignatureValid::assertion())",
        }],
        caught_by: OWNERSHIP,
    },
    Mutant {
        name: "insecure: whose key it is goes unchecked, in TLS 1.3",
        why: "a recorded certificate is enough to stand in for the server",
        edits: &[Edit {
            file: VERIFY,
            old: "verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)",
            new: "Ok(HandshakeSignatureValid::assertion())",
        }],
        caught_by: OWNERSHIP,
    },
    Mutant {
        name: "whose key it is goes unchecked, in TLS 1.2",
        why: "a recorded certificate is enough to stand in for the server",
        edits: &[Edit {
            file: VERIFY,
            old: "self.signed.verify_tls12_signature(message, certificate, signature)",
            new: "Ok(HandshakeSignatureValid::assertion())",
        }],
        caught_by: OWNERSHIP,
    },
    Mutant {
        name: "whose key it is goes unchecked, in TLS 1.3",
        why: "a recorded certificate is enough to stand in for the server",
        edits: &[Edit {
            file: VERIFY,
            old: "self.signed.verify_tls13_signature(message, certificate, signature)",
            new: "Ok(HandshakeSignatureValid::assertion())",
        }],
        caught_by: OWNERSHIP,
    },
    Mutant {
        name: "a configured server certificate is only taken for an authority",
        why: "clusters with self-signed certificates cannot be reached",
        edits: &[Edit {
            file: VERIFY,
            old: "if !self.themselves.iter().any(|authority| authority == certificate) {",
            new: "if true {",
        }],
        caught_by: Unit("kube::tests::trust::a_server_whose_certificate_is_configured_is_trusted"),
    },
    Mutant {
        name: "any certificate is taken for a configured one",
        why: "anybody is the server who has the name in a certificate of its own",
        edits: &[Edit {
            file: VERIFY,
            old: "if !self.themselves.iter().any(|authority| authority == certificate) {",
            new: "if self.themselves.is_empty() {",
        }],
        caught_by: Unit("kube::tests::trust::a_server_whose_certificate_is_like_a_configured_one_is_not_trusted"),
    },
    Mutant {
        name: "a configured server certificate may sign others",
        why: "who has its key stands in for any server, also when it has expired",
        edits: &[Edit { file: VERIFY, old: "            if !self.signs {\n", new: "            if false {\n" }],
        caught_by: SIGNS,
    },
    Mutant {
        name: "a configured server certificate may sign others beside an authority",
        why: "who has its key stands in for any server, also when it has expired",
        edits: &[Edit {
            file: VERIFY,
            old: "let store = if signs { signers }",
            new: "let store = if false { signers }",
        }],
        caught_by: SIGNS,
    },
    Mutant {
        name: "a configured server certificate is good for any name",
        why: "another server of the same owner can stand in for this one",
        edits: &[Edit { file: VERIFY, old: "        verify_server_name(&parsed, name)?;\n", new: "" }],
        caught_by: TERMS,
    },
    Mutant {
        name: "a configured server certificate is good for ever, and for any purpose",
        why: "what its owner has long given up is trusted",
        edits: &[Edit { file: VERIFY, old: "        pinned::check(certificate, now)?;\n", new: "" }],
        caught_by: TERMS,
    },
    Mutant {
        name: "the purpose of a configured server certificate goes unchecked",
        why: "that of a client can stand in for the server's",
        edits: &[Edit { file: PINNED, old: "Some(false) => Err", new: "Some(false) if false => Err" }],
        caught_by: Unit("net::tls::pinned::tests::a_purpose_other_than_a_servers_is_refused"),
    },
    Mutant {
        name: "two digits of a year are always of this century",
        why: "a certificate of the last one is valid for decades to come",
        edits: &[Edit {
            file: PINNED,
            old: "(UTC_TIME, 12) if digits >= \"5\" =>",
            new: "(UTC_TIME, 12) if digits > \"99z\" =>",
        }],
        caught_by: Unit("net::tls::pinned::tests::dates_mean_what_webpki_takes_them_for"),
    },
    Mutant {
        name: "with `fips` other cryptography will do",
        why: "who has to use validated cryptography does not, and is not told",
        edits: &[Edit { file: PROVIDER, old: "match required && !config.fips() {", new: "match required && false {" }],
        caught_by: Unit("net::tls::provider::tests::with_fips_required_no_other_cryptography_will_do"),
    },
    // ---- files that change ----
    Mutant {
        name: "certificate files are read once",
        why: "a leader loses its term for good when its certificate runs out",
        edits: &[Edit {
            file: FILES,
            old: "now.since(self.read_at) >= AGE",
            new: "now.since(self.read_at) > AGE * 1000",
        }],
        caught_by: AFTER_A_MINUTE,
    },
    Mutant {
        name: "certificate files are read before each request",
        why: "a slow disk holds up every renewal",
        edits: &[Edit { file: FILES, old: "now.since(self.read_at) >= AGE", new: "now >= self.read_at" }],
        caught_by: Unit("net::tls::reload::tests::a_file_is_read_again_when_it_is_a_minute_old_and_not_before"),
    },
    Mutant {
        name: "a file that is read again counts as changed",
        why: "connections and TLS sessions are made anew each minute",
        edits: &[Edit {
            file: FILES,
            old: "if reading.as_ref() == Ok(&self.sources) {",
            new: "if self.sources.is_empty() {",
        }],
        caught_by: Unit("kube::tests::rotation::files_that_stay_as_they_are_keep_the_connection"),
    },
    Mutant {
        name: "a file that cannot be used is told of each minute",
        why: "the log fills up while nothing happens",
        edits: &[Edit {
            file: FILES,
            old: "if self.refused.as_ref() == Some(&reading) {",
            new: "if self.refused.is_some() && self.sources.is_empty() {",
        }],
        caught_by: Unit("net::tls::files::tests::what_cannot_be_used_is_told_once_and_what_was_there_stays"),
    },
    Mutant {
        name: "half a rotation is the last that is read",
        why: "the other half is never seen",
        edits: &[Edit {
            file: FILES,
            old: "                self.refused = Some(reading);\n",
            new: "                self.sources.clear();\n                self.refused = Some(reading);\n",
        }],
        caught_by: Unit("net::tls::reload::tests::half_a_rotation_is_none"),
    },
    Mutant {
        name: "a changed certificate file makes no new version",
        why: "the old certificate is used as long as its connections last",
        edits: &[Edit { file: RELOAD, old: "version: current.version + 1", new: "version: current.version" }],
        caught_by: AFTER_A_MINUTE,
    },
    Mutant {
        name: "a rotation that cannot be used is not counted",
        why: "nobody is alarmed before the old certificate runs out",
        edits: &[Edit {
            file: RELOAD,
            old: "                self.refusals.fetch_add(1, Ordering::Relaxed);\n",
            new: "",
        }],
        caught_by: Unit("kube::tests::rotation::a_rotation_is_counted_once_and_so_is_one_that_cannot_be_used"),
    },
    Mutant {
        name: "a rotation is counted for the server and for the proxy",
        why: "two rotations are seen where there was one",
        edits: &[Edit {
            file: CLIENT,
            old: "counters.certificate_reloads = tls.version();",
            new: "counters.certificate_reloads = self.shared.files(ClientTls::version).iter().sum();\n            let _ = tls;",
        }],
        caught_by: Unit("kube::tests::rotation::a_rotation_that_server_and_proxy_share_is_counted_once"),
    },
    Mutant {
        name: "connections survive a rotation of their certificates",
        why: "the old certificate is used as long as they last",
        edits: &[Edit { file: CLIENT, old: " && agent.versions.files >= wanted.files", new: "" }],
        caught_by: AFTER_A_MINUTE,
    },
    Mutant {
        name: "after a 401 the client certificate is not read again",
        why: "a leader whose certificate was revoked waits for a minute with the new one on its disk",
        edits: &[Edit {
            file: CLIENT,
            old: "let has_newer_file = self.has_newer_file(files, ClientTls::has_newer_identity);",
            new: "let has_newer_file = self.has_newer_file(files, |_, _| false);",
        }],
        caught_by: Unit("kube::tests::rotation::an_identity_that_the_server_rejects_is_read_again_at_once"),
    },
    Mutant {
        name: "after a failed verification the authorities are not read again",
        why: "a leader waits for a minute with the new ones on its disk",
        edits: &[Edit {
            file: CLIENT,
            old: "ErrorKind::TlsVerification => self.has_newer_file(files, ClientTls::has_newer_authorities),",
            new: "ErrorKind::TlsVerification => false,",
        }],
        caught_by: Unit("kube::tests::rotation::an_authority_that_was_replaced_is_trusted_at_the_first_failure"),
    },
    Mutant {
        name: "a failed verification is tried again with the same authorities",
        why: "a server that is not trusted is asked twice each time",
        edits: &[Edit {
            file: CLIENT,
            old: "match has_newer_file && !e.maybe_sent() {",
            new: "match !e.maybe_sent() && (has_newer_file || e.kind() == &ErrorKind::TlsVerification) {",
        }],
        caught_by: Unit("kube::tests::rotation::an_authority_that_was_not_replaced_is_tried_once"),
    },
    Mutant {
        name: "a write is repeated with a new certificate although it may have been sent",
        why: "the second is judged against what the first has done",
        edits: &[Edit {
            file: CLIENT,
            old: "match has_newer_file && !e.maybe_sent() {",
            new: "match has_newer_file {",
        }],
        caught_by: Unit(
            "kube::tests::rotation::an_identity_that_the_session_is_refused_for_is_replaced_but_what_may_have_been_sent_is_not_repeated",
        ),
    },
    Mutant {
        name: "the authority of a service account is read once",
        why: "a leader loses its term for good when the cluster's authority rotates",
        edits: &[Edit {
            file: IN_CLUSTER,
            old: "config.tls.ca = Some(ca);",
            new: "config.tls.ca = Some(PemSource::inline(ca.bytes()));",
        }],
        caught_by: Unit("kube::tests::rotation::the_authority_of_a_service_account_is_followed"),
    },
    Mutant {
        name: "the authority of a kubeconfig is read once",
        why: "a leader loses its term for good when the cluster's authority rotates",
        edits: &[Edit {
            file: RESOLVE,
            old: "config.tls.ca = Some(ca);",
            new: "config.tls.ca = Some(PemSource::inline(ca.bytes()));",
        }],
        caught_by: Unit(
            "kube::tests::rotation::an_authority_in_a_file_of_a_kubeconfig_is_followed_and_one_in_its_data_stays",
        ),
    },
    Mutant {
        name: "the client certificate of a kubeconfig is read once",
        why: "a leader loses its term for good when its certificate runs out",
        edits: &[Edit {
            file: RESOLVE,
            old: "Ok(Some(IdentitySource { chain, key }))",
            new: "Ok(Some(IdentitySource { chain: PemSource::inline(chain.bytes()), key }))",
        }],
        caught_by: Unit(
            "kube::tests::rotation::an_identity_in_files_of_a_kubeconfig_is_followed_and_one_in_its_data_stays",
        ),
    },
];
