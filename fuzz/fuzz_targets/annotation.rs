#![no_main]

#[path = "../../tests/support/allocation.rs"]
mod allocation;

#[global_allocator]
static COUNTING: allocation::Counting = allocation::Counting;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    allocation::hold(&leasehold::fuzzing::ANNOTATION, input);
});
