//! Watches as the client's library keeps them: a list, then changes from its version on; a watch that breaks goes on from where
//! it was, and lists anew where that is forgotten.

use std::rc::Rc;

use gpu_scheduler_cluster::driver::{Around, Change, Input, Seen};

use super::api::{Read, Stored};
use super::clock::Instant;
use super::plan::{Answered, Asked, Kind, Moment};
use super::sim::{Own, Sim};

/// First pause after a failure; it doubles with each.
const PAUSE: Moment = 800;
/// Longest pause.
const LONGEST_PAUSE: Moment = 30_000;

/// A watch of one kind.
#[derive(Debug, Default)]
pub struct Stream {
    /// Connections so far. What belongs to an earlier one means nothing.
    connection: u64,
    /// Up to which version it has told, while it is connected.
    from: Option<u64>,
    /// Failures in a row.
    failures: u32,
    /// When the last news arrive that are on their way: they come in order.
    last: Moment,
}

/// A step of a watch.
#[derive(Debug, Clone)]
pub enum Step {
    /// It begins anew, with a list.
    List,
    /// The API server answers the list of this connection.
    Listing(u64),
    /// The list arrives.
    Listed(u64, u64, Vec<Rc<Stored>>),
    /// It goes on after this version.
    Reconnect(u64, u64),
    /// News up to this version arrive.
    News(u64, u64),
    /// A bookmark is sent.
    Bookmark(u64),
    /// A bookmark of this version arrives.
    Marked(u64, u64),
    /// The connection breaks.
    Cut,
    /// The server says that what it was to go on from is forgotten.
    Expired,
}

impl Sim {
    /// A step of a replica's watch.
    pub fn step_watch(&mut self, replica: usize, kind: Kind, step: Step) {
        let Some(stream) = self.stream(replica, kind) else { return };
        let connection = stream.connection;
        match step {
            Step::List => self.begin_list(replica, kind),
            Step::Listing(of) if of == connection => self.answer_list(replica, kind, of),
            Step::Listed(of, version, objects) if of == connection => self.take_list(replica, kind, version, objects),
            Step::Reconnect(of, from) if of == connection => self.reconnect(replica, kind, from),
            Step::News(of, until) if of == connection => self.take_news(replica, kind, until),
            Step::Bookmark(of) if of == connection => {
                let at = self.arrival(replica, kind);
                self.own(replica, at, Own::Watch(kind, Step::Marked(of, self.api.version())));
                self.plan_bookmark(replica, kind, of);
            }
            Step::Marked(of, version) if of == connection => {
                // It comes after all that it stands for.
                self.take_news(replica, kind, version);
                if let Some(stream) = self.stream(replica, kind) {
                    stream.from = stream.from.map(|from| from.max(version));
                }
            }
            Step::Cut => {
                let Some(from) = stream.from.take() else { return };
                stream.connection += 1;
                let connection = stream.connection;
                // One that was closed in good order is opened again at once.
                let pause = if self.chance.chance(50) { 1 } else { self.pause(replica, kind) };
                self.own(replica, self.now.after(pause), Own::Watch(kind, Step::Reconnect(connection, from)));
            }
            Step::Expired => {
                let was_connected = stream.from.take().is_some();
                if was_connected {
                    self.list_later(replica, kind);
                }
            }
            // Of a connection that is no more.
            _ => {}
        }
    }

    /// Something of a kind was written: whoever watches it is told.
    pub fn tell_watchers(&mut self, kind: Kind) {
        for replica in 0..self.replicas.len() {
            let Some(stream) = self.stream(replica, kind).filter(|stream| stream.from.is_some()) else { continue };
            let connection = stream.connection;
            let at = self.arrival(replica, kind);
            self.own(replica, at, Own::Watch(kind, Step::News(connection, self.api.version())));
        }
    }

    fn stream(&mut self, replica: usize, kind: Kind) -> Option<&mut Stream> {
        self.replicas[replica].term.as_mut().map(|term| &mut term.streams[kind.index()])
    }

    /// When news that are sent now arrive: after those that were sent before.
    fn arrival(&mut self, replica: usize, kind: Kind) -> Instant {
        let delay = 1 + self.chance.below(10) as Moment + self.lag(kind);
        let at = self.now.0 + delay;
        let Some(stream) = self.stream(replica, kind) else { return Instant(at) };
        stream.last = stream.last.max(at);
        Instant(stream.last)
    }

    fn begin_list(&mut self, replica: usize, kind: Kind) {
        let Some(stream) = self.stream(replica, kind) else { return };
        stream.connection += 1;
        stream.from = None;
        let connection = stream.connection;
        self.tell_mark(replica, kind, Mark::Restarted);
        let at = self.now.after(1 + self.chance.below(20) as Moment + self.slowness());
        self.own(replica, at, Own::Watch(kind, Step::Listing(connection)));
    }

    fn answer_list(&mut self, replica: usize, kind: Kind, connection: u64) {
        let refused = self.answer_to(Asked::Everything).is_some_and(|answer| answer != Answered::Silence);
        if self.is_out() || refused {
            return self.list_later(replica, kind);
        }
        let (version, objects) = (self.api.version(), self.api.list(kind));
        let at = self.arrival(replica, kind);
        self.own(replica, at, Own::Watch(kind, Step::Listed(connection, version, objects)));
    }

    fn take_list(&mut self, replica: usize, kind: Kind, version: u64, objects: Vec<Rc<Stored>>) {
        self.note(|| format!("{} objects of {kind:?} listed by r{replica} at version {version}", objects.len()));
        let whole = !self.chance.chance(5);
        let shown = if whole { objects.len() } else { self.chance.below(objects.len() + 1) };
        for object in &objects[..shown] {
            self.tell_object(replica, kind, object, Sight::Listed);
        }
        // A list comes in parts, and the next part may be forgotten already.
        if !whole {
            return self.list_later(replica, kind);
        }
        self.tell_mark(replica, kind, Mark::Synced);
        self.connect(replica, kind, version);
    }

    fn connect(&mut self, replica: usize, kind: Kind, from: u64) {
        let Some(stream) = self.stream(replica, kind) else { return };
        stream.from = Some(from);
        stream.failures = 0;
        let connection = stream.connection;
        let at = self.arrival(replica, kind);
        self.own(replica, at, Own::Watch(kind, Step::News(connection, self.api.version())));
        self.plan_bookmark(replica, kind, connection);
    }

    fn plan_bookmark(&mut self, replica: usize, kind: Kind, connection: u64) {
        if self.plan.bookmarks > 0 {
            let at = self.now.after(self.plan.bookmarks);
            self.own(replica, at, Own::Watch(kind, Step::Bookmark(connection)));
        }
    }

    fn reconnect(&mut self, replica: usize, kind: Kind, from: u64) {
        if self.is_out() || self.answer_to(Asked::Everything).is_some() {
            let pause = self.pause(replica, kind);
            let Some(stream) = self.stream(replica, kind) else { return };
            let connection = stream.connection;
            self.own(replica, self.now.after(pause), Own::Watch(kind, Step::Reconnect(connection, from)));
        } else if self.api.news(kind, from, from).is_none() {
            self.note(|| format!("410 for r{replica}'s watch of {kind:?} from version {from}"));
            self.list_later(replica, kind);
        } else {
            self.connect(replica, kind, from);
        }
    }

    fn take_news(&mut self, replica: usize, kind: Kind, until: u64) {
        let Some(from) = self.stream(replica, kind).and_then(|stream| stream.from) else { return };
        let Some(news) = self.api.news(kind, from, until).map(<[_]>::to_vec) else {
            return self.step_watch(replica, kind, Step::Expired);
        };
        for news in news {
            let as_what = if news.gone { Sight::Deleted } else { Sight::Applied };
            self.tell_object(replica, kind, &news.object, as_what);
            if let Some(stream) = self.stream(replica, kind) {
                stream.from = Some(news.version);
            }
        }
    }

    fn list_later(&mut self, replica: usize, kind: Kind) {
        let pause = self.pause(replica, kind);
        if let Some(stream) = self.stream(replica, kind) {
            stream.connection += 1;
        }
        self.own(replica, self.now.after(pause), Own::Watch(kind, Step::List));
    }

    fn pause(&mut self, replica: usize, kind: Kind) -> Moment {
        let failures = self.stream(replica, kind).map_or(0, |stream| {
            stream.failures += 1;
            stream.failures
        });
        let pause = (PAUSE << failures.saturating_sub(1).min(10)).min(LONGEST_PAUSE);
        pause + self.chance.below(pause as usize / 2) as Moment
    }

    fn tell_mark(&mut self, replica: usize, kind: Kind, mark: Mark) {
        self.input(replica, mark.input(kind));
    }

    fn tell_object(&mut self, replica: usize, kind: Kind, object: &Stored, how: Sight) {
        self.note(|| format!("r{replica} sees {kind:?} {} {how:?}", super::api::name(&object.value)));
        self.input(replica, how.input(&object.read));
    }
}

/// Where a list begins, and where it is complete.
#[derive(Debug, Clone, Copy)]
pub enum Mark {
    /// It begins.
    Restarted,
    /// It is complete.
    Synced,
}

impl Mark {
    /// As the watch of a kind says it.
    pub fn input(self, kind: Kind) -> Input {
        match kind {
            Kind::Nodes => Input::Nodes(self.of()),
            Kind::Pods => Input::Pods(self.of()),
            Kind::Reports => Input::Reports(self.of()),
            Kind::Groups => Input::Around(Around::PodGroups(self.of())),
        }
    }

    fn of<T>(self) -> Change<T> {
        match self {
            Self::Restarted => Change::Restarted,
            Self::Synced => Change::Synced,
        }
    }
}

/// As what an object is shown.
#[derive(Debug, Clone, Copy)]
pub enum Sight {
    /// As one of a list.
    Listed,
    /// As one that was written.
    Applied,
    /// As one that is gone.
    Deleted,
}

impl Sight {
    /// As the watch of its kind shows an object.
    pub fn input(self, object: &Read) -> Input {
        match object {
            Read::Node(node) => Input::Nodes(self.of(node)),
            Read::Pod(pod) => Input::Pods(self.of(pod)),
            Read::Report(report) => Input::Reports(self.of(report)),
            Read::Group(group) => Input::Around(Around::PodGroups(self.of(group))),
        }
    }

    fn of<T: Clone>(self, object: &T) -> Change<T> {
        let seen = Seen::Object(Box::new(object.clone()));
        match self {
            Self::Listed => Change::Listed(seen),
            Self::Applied => Change::Applied(seen),
            Self::Deleted => Change::Deleted(seen),
        }
    }
}
