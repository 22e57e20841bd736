//! Counts what a thread allocates, and holds parsers to a bound.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use leasehold::fuzzing::Target;

/// Maximum memory at one time, for each byte of input. A JSON object with one member has seven bytes of text and is a
/// whole node of a B-tree in memory.
const PEAK_PER_BYTE: usize = 160;

/// Maximum total of all allocations, including freed ones, for each byte of input. A parser that copies the rest for each
/// line exceeds it.
const TOTAL_PER_BYTE: usize = 640;

/// The allocator of the system, with a count for each thread.
pub struct Counting;

#[derive(Clone, Copy)]
struct Count {
    live: isize,
    peak: isize,
    total: usize,
}

/// The bytes that a run has allocated.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocated {
    /// At most at one time.
    pub peak: usize,
    /// From beginning to end.
    pub total: usize,
    /// In the end.
    pub left: usize,
}

thread_local! {
    static COUNT: Cell<Count> = const { Cell::new(Count { live: 0, peak: 0, total: 0 }) };
}

fn count(taken: usize, given_back: usize) {
    // A thread that ends may free after its thread-locals are gone.
    let _ = COUNT.try_with(|cell| {
        let Count { live, peak, total } = cell.get();
        let live = live + taken as isize - given_back as isize;
        cell.set(Count { live, peak: peak.max(live), total: total + taken });
    });
}

// SAFETY: every call goes to the system's allocator as it came; the count allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, layout.size());
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        unsafe { System.realloc(pointer, layout, size) }
    }
}

pub fn measure(run: impl FnOnce()) -> Allocated {
    COUNT.set(Count { live: 0, peak: 0, total: 0 });
    run();
    let Count { live, peak, total } = COUNT.get();
    Allocated { peak: peak.max(0) as usize, total, left: live.max(0) as usize }
}

/// Reads the input within the bound, then checks all that must hold of it.
pub fn hold(target: &Target, input: &[u8]) -> Allocated {
    let allocated = measure(|| (target.read)(input));
    let peak = target.base + PEAK_PER_BYTE * input.len();
    assert!(allocated.peak <= peak, "{allocated:?}: more than {peak} at one time for {} bytes", input.len());
    let total = 4 * target.base + TOTAL_PER_BYTE * input.len();
    assert!(allocated.total <= total, "{allocated:?}: more than {total} in all for {} bytes", input.len());
    (target.check)(input);
    allocated
}
