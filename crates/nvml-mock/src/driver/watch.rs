//! Waits until a file of the node may have changed.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

/// A watch over a folder. It begins when it is made: a change between that and the waiting is seen.
pub(crate) struct Watch(Option<OwnedFd>);

/// The longest wait, for folders whose changes the kernel does not tell of, such as those of another machine.
const LONGEST: Duration = Duration::from_millis(250);

impl Watch {
    pub fn over(folder: Option<&Path>) -> Self {
        Self(folder.and_then(|folder| {
            let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
            inotify::add_watch(&watch, folder, WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE | WatchFlags::DELETE)
                .ok()?;
            Some(watch)
        }))
    }

    /// Waits until something may have changed, or for so long.
    pub fn wait(&self, most: Duration) {
        let most = most.min(LONGEST);
        let Some(watch) = &self.0 else { return std::thread::sleep(most.min(Duration::from_millis(20))) };
        let timeout = Timespec::try_from(most).expect("it is a fraction of a second");
        // A wait that a signal cuts short is one more look at the files.
        let _ = poll(&mut [PollFd::new(watch, PollFlags::IN)], Some(&timeout));
        // What was told is dropped: the files say more.
        let mut told = [0; 4096];
        while rustix::io::read(watch, &mut told).is_ok_and(|length| length == told.len()) {}
    }
}
