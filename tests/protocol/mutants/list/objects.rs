//! How a record stands in an object, and what stands beside it.

use super::*;

const ANNOTATION: &str = "src/store/kubernetes/annotation.rs";
const METADATA: &str = "src/store/kubernetes/metadata.rs";

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "an annotation that is no record is one that nobody holds",
        why: "it is overwritten, and whoever reads it otherwise leads beside us",
        edits: &[Edit {
            file: ANNOTATION,
            old: "_ => Err(wrong!(\"is no record in JSON\")),",
            new: "_ => Ok(Map::new()),",
        }],
        caught_by: Test("behaviour", "annotations::in_memory::what_is_no_record_is_never_overwritten"),
    },
    Mutant {
        name: "a field in another case is none of the record",
        why: "client-go takes it for the holder, and leads",
        edits: &[Edit { file: ANNOTATION, old: "if name != field {", new: "if name.is_empty() {" }],
        caught_by: Test("behaviour", "annotations::in_memory::what_is_no_record_is_never_overwritten"),
    },
    Mutant {
        name: "of a field that stands twice the last counts",
        why: "of client-go it is the last that is not null: a holder is read as none",
        edits: &[Edit { file: ANNOTATION, old: "if count > 1 {", new: "if count > 9 {" }],
        caught_by: Unit(
            "store::kubernetes::annotation::tests::what_is_no_record_is_an_error_that_names_the_annotation",
        ),
    },
    Mutant {
        name: "a fraction of a second is cut off",
        why: "its holder has that much longer than we wait",
        edits: &[Edit { file: ANNOTATION, old: "?.ceil() as i32", new: "?.floor() as i32" }],
        caught_by: Unit(
            "store::kubernetes::annotation::tests::what_python_wrote_is_read_and_its_fractions_are_rounded_up",
        ),
    },
    Mutant {
        name: "strange fields of a record in an annotation are dropped",
        why: "they are others'",
        edits: &[Edit {
            file: ANNOTATION,
            old: "object.as_object().and_then(|object| fields(object).ok()).unwrap_or_default();",
            new: "Map::new();",
        }],
        caught_by: Test("behaviour", "annotations::in_memory::what_others_put_on_the_object_survives"),
    },
    Mutant {
        name: "an object without an annotation is not there",
        why: "it cannot be created, so nobody ever leads",
        edits: &[Edit {
            file: ANNOTATION,
            old: "None | Some(Value::Null) => return Ok(Map::new()),\n        Some(text) =>",
            new: "None | Some(Value::Null) => return Err(wrong!(\"is missing\")),\n        Some(text) =>",
        }],
        caught_by: Test("behaviour", "annotations::in_memory::an_object_that_nobody_holds_is_updated"),
    },
    Mutant {
        name: "an object that is gone is an error of the configuration",
        why: "nobody makes it anew before somebody looks into the log",
        edits: &[Edit {
            file: OBJECT,
            old: "Err(error) if is_absence(&error, C::RESOURCE) => {\n                let message",
            new: "Err(error) if is_absence(&error, \"\") => {\n                let message",
        }],
        caught_by: Test("behaviour", "stores::config_maps::in_memory::what_is_gone_is_not_updated"),
    },
    Mutant {
        name: "labels are put there once",
        why: "whoever selects by them does not find a lease that somebody has edited",
        edits: &[Edit {
            file: OBJECT,
            old: "        self.metadata.write(&mut object);\n        // The uid",
            new: "        // The uid",
        }],
        caught_by: Test(
            "behaviour",
            "elections::in_memory::labels_annotations_and_owners_are_put_there_and_again_when_they_are_removed",
        ),
    },
    Mutant {
        name: "owners of others are replaced",
        why: "the lease goes when ours goes, although another still owns it",
        edits: &[Edit { file: METADATA, old: "if !owners.is_array() {", new: "if owners.is_array() {" }],
        caught_by: Unit("store::kubernetes::metadata::tests::ours_is_put_beside_that_of_others"),
    },
];
