//! Keeps credentials out of the HTTP library, whose log shows every byte that it writes when it is turned up.
//!
//! It is given a header of as many asterisks, which the transport replaces when the bytes go out. The value reaches the
//! transport by the thread: a request runs on the thread that makes it, from its first byte to its answer.

use std::cell::RefCell;

use ureq::http::HeaderValue;

thread_local! {
    static SENDING: RefCell<Option<HeaderValue>> = const { RefCell::new(None) };
}

const NAME: &[u8] = b"\r\nauthorization: ";

/// While this lives, requests of this thread go out with `value`.
pub(super) struct Masked(());

impl Masked {
    /// What to give to the HTTP library instead of `value`.
    pub(super) fn new(value: &HeaderValue) -> (Self, HeaderValue) {
        SENDING.set(Some(value.clone()));
        let mask = HeaderValue::from_bytes(&vec![b'*'; value.len()]);
        (Self(()), mask.unwrap_or_else(|_| HeaderValue::from_static("*")))
    }
}

impl Drop for Masked {
    fn drop(&mut self) {
        SENDING.set(None);
    }
}

/// Puts the value in the place of its mask, once: what comes after is somebody else's text.
pub(super) fn unmask(output: &mut [u8]) {
    SENDING.with_borrow_mut(|sending| {
        let Some(value) = sending else { return };
        let mask = [NAME, &vec![b'*'; value.len()], b"\r\n"].concat();
        if let Some(at) = output.windows(mask.len()).position(|window| window == mask) {
            let start = at + NAME.len();
            output[start..start + value.len()].copy_from_slice(value.as_bytes());
            *sending = None;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_replaced_once_and_only_where_the_header_is() {
        let secret = HeaderValue::from_static("Bearer x");
        let (masked, mask) = Masked::new(&secret);
        assert_eq!(mask, "********");
        let head = "PUT / HTTP/1.1\r\nx: ********\r\nauthorization: ********\r\n\r\n\r\nauthorization: ********\r\n";
        let mut output = head.as_bytes().to_vec();
        unmask(&mut output);
        let expected =
            "PUT / HTTP/1.1\r\nx: ********\r\nauthorization: Bearer x\r\n\r\n\r\nauthorization: ********\r\n";
        assert_eq!(String::from_utf8_lossy(&output), expected);
        unmask(&mut output);
        assert_eq!(String::from_utf8_lossy(&output), expected);
        drop(masked);

        let mut output = head.as_bytes().to_vec();
        unmask(&mut output);
        assert_eq!(output, head.as_bytes(), "after the request the value is gone");
    }
}
