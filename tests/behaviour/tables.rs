//! The table in a file, in PostgreSQL and in MariaDB.
//!
//! The tests check which shapes are refused, and rows that an operator changes.

use std::sync::Arc;
use std::time::Duration;

use leasehold::StopReason;
use leasehold::store::{LeaderElectionRecord, MicroTime, RecordNotes, Store, StoreErrorKind};

use crate::support::mariadb::MariaDb;
use crate::support::postgres::Postgres;
use crate::support::real_store::{File, InSql, InTable, RealStore};
use crate::support::stores::{builder, call, held_by, next_change, watching};
use crate::support::{lost, wait_until};

/// A database of one test, with the table.
trait Database: InTable {
    /// Whether a watch reads the table, and thus reports a dropped table.
    const IS_READ_BY_WATCHES: bool = true;

    /// Whether a fence that starts after the release of its term yields no row.
    const FENCE_CLOSES_BY_RELEASE: bool = true;

    /// Returns the statement that creates the table, from the database or the library.
    fn creation(&self) -> String;

    /// Returns changes of the creation statement that are refused.
    ///
    /// Each change is a text, its replacement, and the column that becomes wrong.
    fn refused(&self) -> &'static [[&'static str; 3]];

    /// The table of the version that took its fence from the column `acquired`, and the statements of that version that
    /// write a record.
    const BEFORE_ACQUISITION: [&'static str; 3];

    /// The statements that create and drop a trigger that makes each update change nothing.
    const MUTE: [&'static str; 2];

    /// Whether a store looks for triggers when it connects.
    const CHECKS_TRIGGERS: bool = true;

    /// Returns statements that create tables of earlier versions or of copies.
    fn accepted(&self) -> Vec<String>;
}

impl Database for File {
    const CHECKS_TRIGGERS: bool = false;
    const MUTE: [&'static str; 2] =
        ["CREATE TRIGGER mute BEFORE UPDATE ON leasehold BEGIN SELECT RAISE(IGNORE); END", "DROP TRIGGER mute"];
    const BEFORE_ACQUISITION: [&'static str; 3] = [
        "CREATE TABLE leasehold (generation INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, \
         writes INTEGER NOT NULL DEFAULT 0, acquired INTEGER NOT NULL DEFAULT 0, uid TEXT NOT NULL, holder_identity TEXT, \
         lease_duration_seconds INTEGER, acquire_time TEXT, renew_time TEXT, lease_transitions INTEGER) STRICT",
        "INSERT INTO leasehold (key, uid) VALUES ('other', 'u')",
        "UPDATE leasehold SET writes = writes + 1, acquired = writes + 1",
    ];

    fn creation(&self) -> String {
        let before = "DROP TABLE IF EXISTS leasehold_before; ";
        before.to_owned() + &self.query("SELECT sql FROM sqlite_schema WHERE name = 'leasehold'")
    }

    fn refused(&self) -> &'static [[&'static str; 3]] {
        &[
            ["AUTOINCREMENT", "/* no AUTOINCREMENT */", "generation"],
            ["generation INTEGER", "generation INTEGER, id INTEGER", "generation"],
            ["NOT NULL UNIQUE", "NOT NULL", "key"],
            ["key TEXT NOT NULL", "key TEXT NOT NULL COLLATE NOCASE", "key"],
            ["renew_time TEXT", "renew_time INTEGER", "renew_time"],
            ["notes TEXT", "notes INTEGER", "notes"],
            [",\n    notes TEXT CHECK (length(notes) <= 32768)", "", "notes"],
            ["writes INTEGER", "writes TEXT", "writes"],
            ["acquisition INTEGER NOT NULL", "acquisition INTEGER NOT NULL DEFAULT 0", "acquisition"],
        ]
    }

    fn accepted(&self) -> Vec<String> {
        vec![
            self.creation(),
            self.creation().replace("STRICT", "").replace("holder_identity TEXT", "holder_identity VARCHAR"),
        ]
    }
}

impl Database for InSql<Postgres> {
    const IS_READ_BY_WATCHES: bool = false;
    const MUTE: [&'static str; 2] = [
        "CREATE FUNCTION mute() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$; \
         CREATE TRIGGER mute BEFORE UPDATE ON leasehold FOR EACH ROW EXECUTE FUNCTION mute()",
        "DROP TRIGGER mute ON leasehold",
    ];
    const BEFORE_ACQUISITION: [&'static str; 3] = [
        "CREATE TABLE leasehold (generation bigint GENERATED ALWAYS AS IDENTITY, key varchar(253) COLLATE \"C\" PRIMARY KEY, \
         writes bigint NOT NULL DEFAULT 0, acquired bigint NOT NULL DEFAULT 0, uid varchar(64) NOT NULL, \
         holder_identity varchar(65535), lease_duration_seconds integer, acquire_time varchar(64), \
         renew_time varchar(64), lease_transitions integer)",
        "INSERT INTO leasehold (key, uid) VALUES ('other', 'u')",
        "UPDATE leasehold SET writes = writes + 1, acquired = writes + 1",
    ];

    fn creation(&self) -> String {
        include_str!("../../src/backends/postgres/table.sql").split("\n\n").next().expect("a statement").to_owned()
    }

    fn refused(&self) -> &'static [[&'static str; 3]] {
        &[
            ["GENERATED ALWAYS AS IDENTITY", "NOT NULL DEFAULT 1", "generation"],
            ["bigint GENERATED ALWAYS AS IDENTITY", "bigserial", "generation"],
            ["IDENTITY", "IDENTITY (INCREMENT BY -1)", "generation"],
            ["IDENTITY", "IDENTITY (CYCLE)", "generation"],
            ["IDENTITY", "IDENTITY (CACHE 10)", "generation"],
            ["PRIMARY KEY", "NOT NULL", "key"],
            ["key varchar(253)", "key char(253)", "key"],
            ["holder_identity varchar(65535)", "holder_identity char(200)", "holder_identity"],
            ["acquire_time varchar(64)", "acquire_time timestamp DEFAULT now()", "acquire_time"],
            ["renew_time varchar(64)", "renew_time timestamptz", "renew_time"],
            ["notes varchar(32768)", "notes json", "notes"],
            ["notes varchar(32768)", "others text", "notes"],
            ["writes bigint", "writes smallint", "writes"],
            ["transitions integer", "transitions text", "lease_transitions"],
            ["acquisition bigint NOT NULL", "acquisition bigint NOT NULL DEFAULT 0", "acquisition"],
            ["acquisition bigint NOT NULL", "acquisition bigint", "acquisition"],
            [",\n    UNIQUE (key, acquisition)", "", "acquisition"],
            ["UNIQUE (key, acquisition)", "UNIQUE (key) INCLUDE (acquisition)", "acquisition"],
        ]
    }

    fn accepted(&self) -> Vec<String> {
        let dump = self.server().dump(&self.database);
        let with_checks =
            [("uid", 64), ("acquire_time", 64), ("renew_time", 64), ("holder_identity", 65535), ("key", 253)]
                .iter()
                .fold(self.creation(), |text, (column, length)| {
                    let check = format!("{column} text CHECK (octet_length({column}) <= {length})");
                    text.replace(&format!("{column} varchar({length})"), &check)
                })
                .replace(
                    "CHECK (octet_length(key) <= 253) COLLATE \"C\"",
                    "COLLATE \"C\" CHECK (octet_length(key) <= 253)",
                );
        let texts = self
            .creation()
            .replace("varchar", "text")
            .replace("(253)", "")
            .replace("(64)", "")
            .replace("(65535)", "")
            .replace("(32768)", "");
        vec![texts, with_checks, self.creation(), format!("DROP FUNCTION leasehold_notify; {dump}")]
    }
}

impl Database for InSql<MariaDb> {
    const FENCE_CLOSES_BY_RELEASE: bool = false;
    const MUTE: [&'static str; 2] = [
        "CREATE TRIGGER mute BEFORE UPDATE ON leasehold FOR EACH ROW SET NEW.writes = OLD.writes, \
         NEW.holder_identity = OLD.holder_identity, NEW.acquire_time = OLD.acquire_time, NEW.renew_time = OLD.renew_time",
        "DROP TRIGGER mute",
    ];
    const BEFORE_ACQUISITION: [&'static str; 3] = [
        "DROP TABLE leasehold_fence; CREATE TABLE leasehold (generation BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, \
         name VARBINARY(253) NOT NULL UNIQUE, writes INT NOT NULL DEFAULT 0 CHECK (writes >= 0), \
         acquired INT NOT NULL DEFAULT 0, uid VARBINARY(64) NOT NULL, holder_identity BLOB, \
         lease_duration_seconds INT, acquire_time VARBINARY(64), renew_time VARBINARY(64), lease_transitions INT)",
        "SET sql_mode = 'STRICT_ALL_TABLES'; INSERT INTO leasehold (name, uid) VALUES ('other', 'u')",
        "UPDATE leasehold SET writes = writes + 1, acquired = writes + 1",
    ];

    fn creation(&self) -> String {
        self.query("SHOW CREATE TABLE leasehold").trim_start_matches("leasehold\t").replace('`', "")
    }

    fn refused(&self) -> &'static [[&'static str; 3]] {
        &[
            ["NOT NULL AUTO_INCREMENT", "NOT NULL", "generation"],
            ["UNIQUE KEY name (name)", "KEY name (name)", "name"],
            ["UNIQUE KEY name (name)", "UNIQUE KEY name (name(5))", "name"],
            ["UNIQUE KEY name (name)", "UNIQUE KEY name (name, writes)", "name"],
            ["name varbinary(253)", "name varchar(253)", "name"],
            ["holder_identity blob", "holder_identity varchar(200) CHARACTER SET latin1", "holder_identity"],
            ["acquire_time varbinary(64)", "acquire_time datetime(6)", "acquire_time"],
            ["renew_time varbinary(64)", "renew_time timestamp", "renew_time"],
            [" notes text", " others text", "notes"],
            ["writes int(11)", "writes smallint", "writes"],
            ["writes int(11) NOT NULL", "writes int(11) NOT NULL DEFAULT 0", "writes"],
        ]
    }

    fn accepted(&self) -> Vec<String> {
        let in_utf8 = "holder_identity varchar(200) CHARACTER SET utf8mb4";
        vec![self.creation(), self.creation().replace("holder_identity blob", in_utf8)]
    }
}

macro_rules! on_every_database {
    ($($test:ident),*) => {
        on_every_database!(sqlite File; $($test),*);
        on_every_database!(postgres InSql<Postgres>; $($test),*);
        on_every_database!(mysql InSql<MariaDb>; $($test),*);
    };
    ($module:ident $database:ty; $($test:ident),*) => {
        mod $module {
            use super::*;
            $(#[test] fn $test() {
                let Some(database) = <$database>::shared(concat!("tables_", stringify!($test))) else { return };
                super::$test(&database);
            })*
        }
    };
}

on_every_database! {
    another_shape_is_refused_until_it_is_repaired,
    table_of_earlier_versions_is_repaired_and_refuses_them,
    ignored_write_names_the_cause,
    repair_continues_above_deleted_rows,
    tables_of_earlier_versions_and_copies_are_accepted,
    a_row_put_back_with_another_record_is_no_base,
    watch_reports_writes_of_an_operator,
    a_former_leader_does_not_get_past_the_fence,
    fence_with_special_characters_matches_only_its_key,
    another_table_of_that_name_is_left_alone,
    dropped_table_ends_the_term_until_it_is_created_again,
    keys_that_look_alike_are_apart
}

fn another_shape_is_refused_until_it_is_repaired(database: &impl Database) {
    let creation = database.creation();
    let [key, required] = if creation.contains("name varbinary") { ["name", "writes"] } else { ["key", "acquisition"] };
    for [from, to, column] in database.refused() {
        assert!(creation.contains(from), "{from}: {creation}");
        database.execute(&format!("DROP TABLE leasehold; {}", creation.replacen(from, to, 1)));
        let overriding = if creation.contains("IDENTITY") { "OVERRIDING SYSTEM VALUE" } else { "" };
        let columns = format!("(generation, {key}, uid, {required})");
        database.execute(&format!("INSERT INTO leasehold {columns} {overriding} VALUES (7, 'old', 'u', 0)"));
        let refused = database.open().and_then(|store| store.get("jobs", &call()).map(drop)).expect_err(to);
        assert_eq!(refused.kind(), StoreErrorKind::Rejected, "{to}: {refused}");
        let refused = refused.to_string();
        let (why, repair) = refused.split_once("run: ").unwrap_or_else(|| panic!("{to}: {refused}"));
        assert!(why.contains(&format!("column {column} ")), "{to}: {refused}");
        database.execute(repair);
        let created = database.store().create("jobs", held_by("a").as_write(), &call()).expect(to);
        assert!(*column != "generation" || created.version >> 31 > 7, "{to}: {}", created.version);
        let updated = database.store().update("jobs", &created, held_by("b").as_write(), &call()).expect(to);
        let found = database.store().get("jobs", &call()).expect(to).expect("a record");
        assert!((found.version, &found.record) == (updated.version, &updated.record), "{to}: {found:?}");
    }
}

/// A program of an earlier version would write without waiting for fences.
fn table_of_earlier_versions_is_repaired_and_refuses_them<D: Database>(database: &D) {
    let [creation, insert, update] = D::BEFORE_ACQUISITION;
    database.execute(&format!("DROP TABLE leasehold; {creation}; {}", insert.replace("other", "jobs")));
    database.execute(update);
    let refused = database.open().and_then(|store| store.get("jobs", &call()).map(drop)).expect_err("the old table");
    assert_eq!(refused.kind(), StoreErrorKind::Rejected, "{refused}");
    database.execute(refused.to_string().split_once("run: ").expect("a repair").1);
    for statement in [insert, update] {
        assert!(!database.try_execute(statement), "{statement}");
    }
    let store = database.store();
    let written = match store.get("jobs", &call()).expect("an answer") {
        Some(base) => store.update("jobs", &base, held_by("a").with_notes(&asked("a")), &call()),
        None => store.create("jobs", held_by("a").with_notes(&asked("a")), &call()),
    };
    let version = written.expect("a write").version;
    assert_eq!(*store.get("jobs", &call()).expect("an answer").expect("a record").notes, asked("a"));
    assert!(database.query(&database.fence(version)) == "1", "the fence of version {version}");
}

/// Returns notes that ask `identity` to step down.
fn asked(identity: &str) -> RecordNotes {
    let mut notes = RecordNotes::default();
    notes.step_down = Some(identity.to_owned());
    notes
}

/// The write fails with a cause, because the record shows that no other candidate has written.
fn ignored_write_names_the_cause<D: Database>(database: &D) {
    let store = database.store();
    let base = store.create("jobs", held_by("a").as_write(), &call()).expect("a record");
    let [create, drop] = D::MUTE;
    database.execute(create);
    let renewal = LeaderElectionRecord { renew_time: Some(MicroTime::from_unix_micros(9)), ..base.record.clone() };
    for record in [renewal, held_by("b")] {
        let error = store.update("jobs", &base, record.as_write(), &call()).expect_err("no row changes");
        assert_eq!(error.kind(), StoreErrorKind::Rejected, "{error}");
        let error = error.to_string();
        assert!(error.contains("trigger") && error.contains("DROP TRIGGER"), "{error}");
    }
    // A store that connects later refuses the table.
    let refused = database.open().and_then(|store| store.get("jobs", &call()).map(|_| ())).map_err(|it| it.to_string());
    assert!(
        !D::CHECKS_TRIGGERS || refused.clone().is_err_and(|it| it.contains(&format!("run: {drop}"))),
        "{refused:?}"
    );
    database.execute(drop);
    store.update("jobs", &base, held_by("b").as_write(), &call()).expect("an update");
}

/// Fencing tokens do not repeat, even if only the number generator knows the deleted rows.
fn repair_continues_above_deleted_rows(database: &impl Database) {
    let creation = database.creation();
    let [key, required] = if creation.contains("name varbinary") { ["name", "writes"] } else { ["key", "acquisition"] };
    let mut refused = database.refused().iter();
    let [from, to, _] = refused.find(|[_, to, column]| to.contains("CYCLE") || *column == "renew_time").expect("one");
    database.execute(&format!("DROP TABLE leasehold; {}", creation.replacen(from, to, 1)));
    for _ in 0..3 {
        database.execute(&format!(
            "INSERT INTO leasehold ({key}, uid, {required}) VALUES ('old', 'u', 0); DELETE FROM leasehold"
        ));
    }
    let refused = database.open().and_then(|store| store.get("jobs", &call()).map(drop)).expect_err(to).to_string();
    database.execute(refused.split_once("run: ").expect("a repair").1);
    let created = database.store().create("jobs", held_by("a").as_write(), &call()).expect("a record");
    assert_eq!(created.version >> 31, 4);
}

fn tables_of_earlier_versions_and_copies_are_accepted(database: &impl Database) {
    for creation in database.accepted() {
        database.execute(&format!("DROP TABLE leasehold; {creation}"));
        database.store().create("jobs", held_by("a").as_write(), &call()).expect(&creation);
    }
}

/// A restored backup, or a standby server without the last commits, reuses versions.
fn a_row_put_back_with_another_record_is_no_base(database: &impl Database) {
    let store = database.store();
    let base = store.create("jobs", held_by("c").with_notes(&asked("c")), &call()).expect("a record");
    let text = |text: &str| format!("'{text}'");
    let time = |time: &Option<MicroTime>| text(time.as_ref().expect("a time").as_str());
    for (column, original, other) in [
        ("uid", text(base.record.uid.as_deref().expect("a uid")), "'other'"),
        ("holder_identity", text("c"), "'b'"),
        ("holder_identity", text("c"), "'c '"),
        ("holder_identity", text("c"), "'C'"),
        ("holder_identity", text("c"), "NULL"),
        ("lease_duration_seconds", "15".to_owned(), "16"),
        ("acquire_time", time(&base.record.acquire_time), "NULL"),
        ("renew_time", time(&base.record.renew_time), "'1970-01-01T00:00:00.000003Z'"),
        ("lease_transitions", "3".to_owned(), "4"),
        ("notes", text(r#"{"stepDown":"c"}"#), "NULL"),
        ("notes", text(r#"{"stepDown":"c"}"#), r#"'{"stepDown":"C"}'"#),
        ("notes", text(r#"{"stepDown":"c"}"#), "'{'"),
    ] {
        database.execute(&format!("UPDATE leasehold SET {column} = {other}"));
        let error = store.update("jobs", &base, held_by("d").as_write(), &call()).expect_err(other);
        assert_eq!(error.kind(), StoreErrorKind::NotApplied, "{column} = {other}: {error}");
        let found = store.get("jobs", &call()).expect("an answer").expect("a record");
        let is_other = found.record != base.record || found.notes != base.notes;
        assert!(found.version == base.version && is_other, "{column} = {other}");
        database.execute(&format!("UPDATE leasehold SET {column} = {original}"));
    }
    // A text that contains no notes is a base, too.
    database.execute("UPDATE leasehold SET notes = '{'");
    let base = store.get("jobs", &call()).expect("an answer").expect("a record");
    assert_eq!(*base.notes, RecordNotes::default());
    let next = store.update("jobs", &base, held_by("d").as_write(), &call()).expect("an update");
    assert_eq!(next.version, base.version + 1);
    let error = store.update("jobs", &base, held_by("e").as_write(), &call()).expect_err("another version");
    assert_eq!(error.kind(), StoreErrorKind::NotApplied, "{error}");
}

fn a_former_leader_does_not_get_past_the_fence<D: Database>(database: &D) {
    database.execute("CREATE TABLE runs (token BIGINT)");
    let write = |token: u64| {
        let before = database.query("SELECT count(*) FROM runs");
        let fence = database.fence(token);
        database.execute(&format!("INSERT INTO runs SELECT 1 FROM (SELECT 1) AS one WHERE EXISTS ({fence})"));
        database.query("SELECT count(*) FROM runs") != before
    };
    let [one, other] = ["a", "b"].map(|identity| builder(identity).start_on(database.store()).expect("an elector"));
    assert!(!write(u64::MAX), "nobody leads yet");
    let guard = one.block_until_leader().expect("a term");
    let first = guard.fencing_token();
    assert!(write(first) && !write(first - 1), "of the term, and of one before");
    let writes = || database.query("SELECT max(writes) FROM leasehold").parse::<u64>().expect("a number");
    let before = writes();
    wait_until("it is renewed", || writes() > before + 1);
    assert!(write(first), "after renewals");
    drop(guard);
    assert!(!write(first) || !D::FENCE_CLOSES_BY_RELEASE, "after the release");
    let guard = other.block_until_leader().expect("a term");
    assert!(!write(first) && write(guard.fencing_token()), "another leads");
    drop(guard);
    let guard = one.block_until_leader().expect("a term");
    assert!(!write(first) && write(guard.fencing_token()), "the same one leads, in another term");
}

/// The SQL of a fence contains the key as text.
fn fence_with_special_characters_matches_only_its_key(database: &impl Database) {
    let store = database.store();
    let is_open = |key: &str, token| {
        let fence = database.fence_of(key, token);
        database.query(&format!("SELECT count(*) FROM (SELECT 1) AS one WHERE EXISTS ({fence})")) == "1"
    };
    for key in ["it's", "a\\b", "\\' OR 1 = 1 -- ", "x' OR '1'='1", "%", "100%_"] {
        assert!(!is_open(key, u64::MAX >> 1), "{key}: another key leads");
        let token = store.create(key, held_by("a").as_write(), &call()).expect(key).version;
        assert!(is_open(key, token) && !is_open(key, token - 1), "{key}");
    }
}

fn watch_reports_writes_of_an_operator(database: &impl Database) {
    let store = database.store();
    store.create("jobs", held_by("a").as_write(), &call()).expect("a record");
    watching(&store, |told| {
        // The statement does not change the version.
        database.execute("UPDATE leasehold SET holder_identity = 'b'");
        assert_eq!(next_change(told), ("jobs".to_owned(), Some("b".to_owned())));
        database.execute("DELETE FROM leasehold");
        assert_eq!(next_change(told), ("jobs".to_owned(), None));
    });
}

fn another_table_of_that_name_is_left_alone(database: &impl Database) {
    let other = "CREATE TABLE leasehold (generation INT); INSERT INTO leasehold VALUES (7)";
    database.execute(&format!("DROP TABLE leasehold; {other}"));
    for refused in [database.create_table(), database.open().and_then(|store| store.get("jobs", &call()).map(drop))] {
        let error = refused.expect_err("it is another one");
        assert!(error.kind() == StoreErrorKind::Rejected && error.to_string().contains("documentation"), "{error}");
    }
    assert_eq!(database.query("SELECT generation FROM leasehold"), "7");
}

fn dropped_table_ends_the_term_until_it_is_created_again<D: Database>(database: &D) {
    let store = Arc::new(database.store());
    // The numbers of the new table start again, so the elector waits for a whole lease duration.
    let brief = builder("a").lease_duration(Duration::from_secs(10)).renew_deadline(Duration::from_secs(8));
    let elector = brief.start_on(Arc::clone(&store)).expect("an elector");
    let guard = elector.block_until_leader().expect("a term");
    let version = || store.get("jobs", &call()).ok().flatten().map_or(0, |found| found.version);
    wait_until("the term is renewed", || version() > guard.fencing_token());
    wait_until("a watch", || elector.status().is_watching);
    database.execute("DROP TABLE leasehold");
    let reason = lost(&guard, "without its table");
    assert!(reason == StopReason::Deleted || !D::IS_READ_BY_WATCHES, "{reason}");
    let error = store.get("jobs", &call()).expect_err("no table");
    let remedies = ["::create_table", "open the file again, which creates the table"];
    assert!(error.kind() == StoreErrorKind::NotFound, "{error}");
    assert!(remedies.iter().any(|remedy| error.to_string().contains(remedy)), "{error}");
    drop(guard);
    for _ in 0..2 {
        database.create_table().expect("a table");
    }
    assert!(elector.block_until_leader().expect("another term").is_leader());
}

/// A collation may treat some of these names as equal.
fn keys_that_look_alike_are_apart(database: &impl Database) {
    let store = database.store();
    let keys = ["jobs", "Jobs", "jobs ", "jöbs", "jo\u{308}bs", "it's", "a\\b", "%"];
    for key in keys {
        store.create(key, held_by(key).as_write(), &call()).expect("a record");
    }
    for key in keys {
        let found = store.get(key, &call()).expect("an answer").expect("a record");
        assert_eq!(found.record.holder(), Some(key));
    }
}
