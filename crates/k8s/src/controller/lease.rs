//! Which of several controllers acts: the one whose name is on the lease.
//!
//! Clocks are not compared. Whoever does not hold the lease watches whether its record changes; when it has not for the
//! lease's duration by one's own clock, its holder is gone. The server's versions see to it that two who take it at once do
//! not both get it.

use std::time::{Duration, Instant};

/// How long a lease is good for without being renewed.
pub const DURATION: Duration = Duration::from_secs(15);
/// How often its holder renews it, and others look at it.
pub const RENEW: Duration = Duration::from_secs(5);
/// How long after its last renewal a holder still acts; less than the duration, so that nobody else does yet.
pub const TRUST: Duration = Duration::from_secs(10);

/// A lease as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Standing {
    /// Who holds it; nobody if empty.
    pub holder: String,
    /// What tells one renewal from the next.
    pub version: String,
}

/// What to do about the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Make it, in one's own name.
    Create,
    /// Renew it.
    Renew,
    /// Write one's own name on it.
    Take,
    /// Look again later.
    Wait,
}

/// One candidate.
#[derive(Debug, Clone)]
pub struct Candidate {
    name: String,
    seen: Option<(Standing, Instant)>,
    renewed: Option<Instant>,
}

impl Candidate {
    /// A candidate of this name, which nobody else has.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            seen: None,
            renewed: None,
        }
    }

    /// What to do, given the lease as it was just read.
    pub fn step(&mut self, standing: Option<Standing>, now: Instant) -> Step {
        let Some(standing) = standing else {
            self.seen = None;
            return Step::Create;
        };
        let since = match &self.seen {
            Some((before, since)) if *before == standing => *since,
            _ => now,
        };
        let step = if standing.holder == self.name {
            Step::Renew
        } else if standing.holder.is_empty() || now.duration_since(since) >= DURATION {
            Step::Take
        } else {
            Step::Wait
        };
        self.seen = Some((standing, since));
        if step == Step::Wait {
            self.renewed = None;
        }
        step
    }

    /// The server accepted what was written, which began at `asked`.
    pub fn renewed(&mut self, asked: Instant) {
        self.renewed = Some(asked);
    }

    /// Whether another was seen to hold it.
    pub fn is_behind(&self) -> bool {
        let other = |(standing, _): &(Standing, Instant)| {
            !standing.holder.is_empty() && standing.holder != self.name
        };
        self.renewed.is_none() && self.seen.as_ref().is_some_and(other)
    }

    /// Until when this one acts, unless it renews the lease before; `None` if it does not.
    pub fn until(&self) -> Option<Instant> {
        self.renewed.map(|at| at + TRUST)
    }

    /// Whether this one acts.
    pub fn leads(&self, now: Instant) -> bool {
        self.until().is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(holder: &str, version: u32) -> Option<Standing> {
        Some(Standing {
            holder: holder.into(),
            version: version.to_string(),
        })
    }

    #[test]
    fn the_first_takes_it_and_keeps_it() {
        let start = Instant::now();
        let mut me = Candidate::new("me");
        assert_eq!(me.step(None, start), Step::Create);
        assert!(!me.leads(start) && !me.is_behind());
        me.renewed(start);
        assert!(me.leads(start));
        assert_eq!(me.step(standing("me", 1), start + RENEW), Step::Renew);
        // It cannot be renewed: acting ends before anybody else may begin.
        assert!(!me.leads(start + TRUST));
    }

    #[test]
    fn a_silent_holder_is_followed_only_after_its_time() {
        let start = Instant::now();
        let mut me = Candidate::new("me");
        assert_eq!(me.step(standing("other", 1), start), Step::Wait);
        assert!(me.is_behind());
        assert_eq!(me.step(standing("other", 2), start + DURATION), Step::Wait);
        let late = start + DURATION * 2;
        assert_eq!(
            me.step(standing("other", 2), late - Duration::from_millis(1)),
            Step::Wait
        );
        assert_eq!(me.step(standing("other", 2), late), Step::Take);
        // Somebody else was faster.
        assert_eq!(me.step(standing("third", 3), late), Step::Wait);
        assert!(!me.leads(late));
        assert_eq!(me.step(standing("", 4), late), Step::Take);
    }
}
