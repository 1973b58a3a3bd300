//! Who may ask what. Health is for everybody; the rest is for whom the API server says so, or for whoever is on this
//! machine if the server listens there alone.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::review::{Reviewer, Ruling, Unavailable};

/// The rule of this server.
#[derive(Clone)]
pub(super) enum Guard {
    /// Nobody else can reach it.
    Loopback,
    /// The API server decides.
    Delegated(Arc<Reviewer>),
}

/// Lets a request through or answers it.
pub(super) async fn guard(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let Guard::Delegated(reviewer) = guard else { return next.run(request).await };
    let path = request.uri().path().to_owned();
    // What is asked about must be what is served. No path of ours needs an escape.
    if path.contains('%') {
        return refuse(StatusCode::BAD_REQUEST, "write the path without % escapes");
    }
    let Some(token) = bearer(request.headers()) else {
        return unauthorized("no bearer token");
    };
    match reviewer.ask(token, &path).await {
        Ok(Ruling::Allowed) => next.run(request).await,
        Ok(Ruling::Unknown) => unauthorized("the API server does not know the bearer token"),
        Ok(Ruling::Forbidden { user }) => refuse(StatusCode::FORBIDDEN, forbidden(&user, &path)),
        Err(why) => {
            let text = unavailable(&why);
            tracing::warn!(path, "cannot tell whether a request is allowed: {text}");
            refuse(StatusCode::SERVICE_UNAVAILABLE, text)
        }
    }
}

/// The token of `Authorization: Bearer …`; the scheme's case does not count (RFC 9110, section 11.1).
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn unauthorized(why: &str) -> Response {
    let text = format!(
        "{why}; send the header \"Authorization: Bearer TOKEN\" with a token of this cluster, such as kubectl create \
         token SERVICEACCOUNT prints\n"
    );
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], text).into_response()
}

fn forbidden(user: &str, path: &str) -> String {
    format!(
        "{user:?} may not get {path}; bind it to a ClusterRole with the rule nonResourceURLs: [{path:?}], verbs: [\"get\"]"
    )
}

fn unavailable(why: &Unavailable) -> String {
    match why {
        Unavailable::NotPermitted(resource) => format!(
            "the scheduler itself may not create {resource}, so it cannot check tokens; bind its service account to the \
             ClusterRole system:auth-delegator"
        ),
        Unavailable::NoAnswer(error) => {
            format!("the API server, which decides who may read this, cannot be asked: {error}; try again")
        }
    }
}

fn refuse(status: StatusCode, text: impl Into<String>) -> Response {
    (status, text.into() + "\n").into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bearer_tokens() {
        for (value, token) in [
            ("Bearer abc", Some("abc")),
            ("bearer  abc ", Some("abc")),
            ("Bearer", None),
            ("Bearer ", None),
            ("Basic abc", None),
            ("", None),
        ] {
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]);
            assert_eq!(bearer(&headers), token, "{value:?}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
