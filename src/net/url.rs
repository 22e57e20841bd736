//! The parser of a store's URL: `scheme://user:password@place/path?name=value`.

use super::percent;
use super::secret::Secret;

/// The parts of a URL, decoded except for the place.
///
/// The place is the host and the port, or the list of hosts. `Debug` does not show the password.
#[derive(Clone, Debug)]
pub(crate) struct UrlParts<'a> {
    #[cfg(feature = "etcd")]
    pub(crate) scheme: &'a str,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) place: &'a str,
    pub(crate) path: Option<String>,
    pub(crate) parameters: Vec<(String, String)>,
}

impl<'a> UrlParts<'a> {
    /// Splits a URL whose scheme is in `schemes`.
    ///
    /// The error states the violated rule without the URL, because the URL may contain a password.
    pub(crate) fn parse(url: &'a str, schemes: &[&str]) -> Result<Self, &'static str> {
        let (scheme, rest) = url.trim().split_once("://").ok_or("is not a URL")?;
        if !schemes.contains(&scheme) {
            return Err("has an unsupported scheme");
        }
        if rest.contains('#') {
            return Err("must encode # as %23");
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        // A part of the password could otherwise appear in errors as the host or the path.
        if path.contains('@') {
            return Err("must encode / in the user or the password as %2F, and @ in the path as %40");
        }
        let (account, place) =
            authority.rsplit_once('@').map_or((None, authority), |(account, place)| (Some(account), place));
        let (user, password) = match account.map(|account| account.split_once(':').unwrap_or((account, ""))) {
            Some((user, password)) => (decode(user)?, decode(password)?),
            None => (None, None),
        };
        let parameters = query.split('&').filter(|it| !it.is_empty()).map(|parameter| {
            let (name, value) = parameter.split_once('=').ok_or("has a parameter without a value")?;
            // Spaces around a name and a value have no meaning, as in libpq.
            let text = |text: &str| match text.trim_matches(' ') {
                text if text.contains(' ') => Err("must encode the spaces of its parameters as %20"),
                text => decode(text).map(Option::unwrap_or_default),
            };
            Ok((text(name)?, text(value)?))
        });
        Ok(Self {
            #[cfg(feature = "etcd")]
            scheme,
            user,
            password: password.map(Secret::new),
            place,
            path: decode(path)?,
            parameters: parameters.collect::<Result<_, &'static str>>()?,
        })
    }
}

/// Decodes percent-encoded text, and returns `None` if the text is empty.
pub(crate) fn decode(text: &str) -> Result<Option<String>, &'static str> {
    let text = percent::decode(text).and_then(|bytes| String::from_utf8(bytes).ok());
    let text = text.ok_or("contains invalid percent-encoding or text that is not UTF-8")?;
    // Servers may end a text at a NUL character.
    if text.contains('\0') {
        return Err("must not contain a NUL character");
    }
    Ok(Some(text).filter(|text| !text.is_empty()))
}
