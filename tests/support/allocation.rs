//! Counts the memory that a thread allocates, and checks the memory limits of parsers.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use leasehold::fuzzing::Target;

/// The maximum memory at one time, per byte of input.
///
/// A JSON object with one member has seven bytes of text, but needs a whole B-tree node in memory.
const PEAK_PER_BYTE: usize = 160;

/// The maximum sum of all allocations, including freed memory, per byte of input.
///
/// A parser that copies the remaining input for each line exceeds this limit.
const TOTAL_PER_BYTE: usize = 640;

/// The allocator of the system, which also counts the allocations of each thread.
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
    /// The maximum at any time during the run.
    pub peak: usize,
    /// The sum of all allocations, including freed memory.
    pub total: usize,
    /// The bytes that are still allocated after the run.
    pub left: usize,
}

thread_local! {
    static COUNT: Cell<Count> = const { Cell::new(Count { live: 0, peak: 0, total: 0 }) };
}

fn count(taken: usize, late_win_released: usize) {
    // An ending thread may free memory after its thread-local values were destroyed.
    let _ = COUNT.try_with(|cell| {
        let Count { live, peak, total } = cell.get();
        let live = live + taken as isize - late_win_released as isize;
        cell.set(Count { live, peak: peak.max(live), total: total + taken });
    });
}

// SAFETY: every call is passed to the system's allocator unchanged, and counting allocates nothing.
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

/// Parses the input within the memory limits, and then checks the properties of the target.
pub fn hold(target: &Target, input: &[u8]) -> Allocated {
    let allocated = measure(|| (target.read)(input));
    let peak = target.base + PEAK_PER_BYTE * input.len();
    assert!(allocated.peak <= peak, "{allocated:?}: more than {peak} at one time for {} bytes", input.len());
    let total = 4 * target.base + TOTAL_PER_BYTE * input.len();
    assert!(allocated.total <= total, "{allocated:?}: more than {total} in all for {} bytes", input.len());
    (target.check)(input);
    allocated
}
