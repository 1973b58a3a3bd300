//! Who asks and whether they may, by the API server's word: delegated authentication and authorization as Kubernetes'
//! own components have it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::{Api, PostParams};
use kube::core::ObjectMeta;
use tokio::sync::Semaphore;

use super::recent::Recent;

/// How long a yes counts: as long as kube-scheduler's.
const KEEP_YES: Duration = Duration::from_secs(10);
/// How long a no counts: a rule that was just added should soon be seen.
const KEEP_NO: Duration = Duration::from_secs(1);
/// Answers kept of each kind. A cluster has a handful of scrapers; the bound is for those who guess.
const ROOM: usize = 256;
/// Questions to the API server at a time, so that a flood of requests here is none there.
const AT_A_TIME: usize = 4;
/// How long the API server may take, waiting for a turn included.
const PATIENCE: Duration = Duration::from_secs(10);

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ruling {
    /// They may.
    Allowed,
    /// The token is nobody's.
    Unknown,
    /// They are known and may not.
    Forbidden {
        /// Who.
        user: String,
    },
}

/// Why nothing was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unavailable {
    /// The API server does not let this process ask.
    NotPermitted(&'static str),
    /// It did not answer, or not in time.
    NoAnswer(String),
}

/// A token and a path.
type Question = (String, String);

/// Asks the API server, and remembers for a short while what it said.
pub(super) struct Reviewer {
    tokens: Api<TokenReview>,
    access: Api<SubjectAccessReview>,
    turns: Semaphore,
    memory: Mutex<Memory>,
}

/// What was said. Refusals are kept apart, so that guessing cannot push out who is allowed.
struct Memory {
    yes: Recent<Question, ()>,
    no: Recent<Question, Ruling>,
}

impl Reviewer {
    pub fn new(client: kube::Client) -> Self {
        Self {
            tokens: Api::all(client.clone()),
            access: Api::all(client),
            turns: Semaphore::new(AT_A_TIME),
            memory: Mutex::new(Memory { yes: Recent::new(KEEP_YES, ROOM), no: Recent::new(KEEP_NO, ROOM) }),
        }
    }

    /// Whether the bearer of `token` may get `path`.
    pub async fn ask(&self, token: &str, path: &str) -> Result<Ruling, Unavailable> {
        let question = (token.to_owned(), path.to_owned());
        if let Some(known) = self.memory().get(&question) {
            return Ok(known);
        }
        let ruling = tokio::time::timeout(PATIENCE, self.review(token, path))
            .await
            .map_err(|_| Unavailable::NoAnswer(format!("no answer within {} s", PATIENCE.as_secs())))??;
        self.memory().put(question, &ruling);
        Ok(ruling)
    }

    async fn review(&self, token: &str, path: &str) -> Result<Ruling, Unavailable> {
        // It is never closed; were it, asking without a turn would be right.
        let _turn = self.turns.acquire().await.ok();
        let Some(user) = self.authenticate(token).await? else { return Ok(Ruling::Unknown) };
        let name = user.username.clone().unwrap_or_default();
        let allowed = self.authorize(user, path).await?;
        Ok(if allowed { Ruling::Allowed } else { Ruling::Forbidden { user: name } })
    }

    async fn authenticate(&self, token: &str) -> Result<Option<UserInfo>, Unavailable> {
        let review = TokenReview {
            metadata: ObjectMeta::default(),
            spec: TokenReviewSpec { token: token.to_owned(), audiences: None },
            status: None,
        };
        let answer = self.tokens.create(&PostParams::default(), &review).await;
        let status = answer.map_err(|error| failure("tokenreviews.authentication.k8s.io", &error))?.status;
        let status = status.filter(|status| status.authenticated == Some(true));
        // A user without a name is none: an access review of it would ask about nobody.
        Ok(status.and_then(|status| status.user).filter(|user| user.username.as_ref().is_some_and(|n| !n.is_empty())))
    }

    async fn authorize(&self, user: UserInfo, path: &str) -> Result<bool, Unavailable> {
        let attributes = NonResourceAttributes { path: Some(path.to_owned()), verb: Some("get".to_owned()) };
        let extra: Option<BTreeMap<String, Vec<String>>> = user.extra;
        let review = SubjectAccessReview {
            metadata: ObjectMeta::default(),
            spec: SubjectAccessReviewSpec {
                extra,
                groups: user.groups,
                non_resource_attributes: Some(attributes),
                resource_attributes: None,
                uid: user.uid,
                user: user.username,
            },
            status: None,
        };
        let answer = self.access.create(&PostParams::default(), &review).await;
        let status = answer.map_err(|error| failure("subjectaccessreviews.authorization.k8s.io", &error))?.status;
        Ok(status.is_some_and(|status| status.allowed && status.denied != Some(true)))
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn get(&self, question: &Question) -> Option<Ruling> {
        self.yes.get(question).map(|()| Ruling::Allowed).or_else(|| self.no.get(question))
    }

    fn put(&mut self, question: Question, ruling: &Ruling) {
        match ruling {
            Ruling::Allowed => self.yes.put(question, ()),
            no => self.no.put(question, no.clone()),
        }
    }
}

fn failure(resource: &'static str, error: &kube::Error) -> Unavailable {
    match error {
        kube::Error::Api(status) if matches!(status.code, 401 | 403) => Unavailable::NotPermitted(resource),
        other => Unavailable::NoAnswer(other.to_string()),
    }
}
