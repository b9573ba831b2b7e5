//! What each source said last, and for how long that stands. Time is passed in.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mirage_k8s::Claims;
use mirage_metrics::Jobs;

/// What a source said, or all of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Said {
    /// Who holds what.
    pub(super) claims: Arc<Claims>,
    /// Jobs on GPUs.
    pub(super) jobs: Vec<Jobs>,
}

impl Said {
    /// An answer about pods.
    pub(super) fn of_claims(claims: Claims) -> Said {
        Said {
            claims: Arc::new(claims),
            ..Said::default()
        }
    }

    /// An answer about jobs.
    pub(super) fn of_jobs(jobs: Vec<Jobs>) -> Said {
        Said {
            jobs,
            ..Said::default()
        }
    }
}

/// The books of all sources.
#[derive(Debug)]
pub(super) struct Ledger {
    accounts: Vec<Account>,
    patience: Duration,
}

#[derive(Debug)]
struct Account {
    kind: &'static str,
    place: String,
    good: Option<(Instant, Said)>,
    /// Why the last question went wrong.
    trouble: Option<String>,
    failures: u64,
}

/// How a source is doing.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// `pod-resources`, `pod-list` or `hpc-jobs`.
    pub kind: &'static str,
    /// Socket, file or directory.
    pub place: String,
    /// Why its last answer was none; `None` when all is well.
    pub trouble: Option<String>,
    /// Since its last good answer; `None` if there was none.
    pub age: Option<Duration>,
    /// Whether pages still show its last good answer.
    pub stands: bool,
    /// Devices it names.
    pub claims: usize,
    /// Entries of it that made no sense.
    pub skipped: usize,
    /// Questions that went wrong so far.
    pub failures: u64,
}

impl Ledger {
    pub(super) fn new(sources: Vec<(&'static str, String)>, patience: Duration) -> Ledger {
        let account = |(kind, place)| Account {
            kind,
            place,
            good: None,
            trouble: None,
            failures: 0,
        };
        Ledger {
            accounts: sources.into_iter().map(account).collect(),
            patience,
        }
    }

    /// Books an answer; returns what the operator should hear, if anything changed.
    pub(super) fn note(
        &mut self,
        source: usize,
        now: Instant,
        answer: Result<Said, String>,
    ) -> Option<String> {
        let patience = self.patience;
        let account = self.accounts.get_mut(source)?;
        match answer {
            Ok(said) => {
                account.good = Some((now, said));
                account
                    .trouble
                    .take()
                    .map(|_| format!("{} {} answers again", account.kind, account.place))
            }
            Err(trouble) => {
                account.failures += 1;
                let first = account.trouble.is_none();
                let told = first.then(|| match &account.good {
                    Some(_) => format!("{trouble}; its last answer stands for {patience:?}"),
                    None => format!("{trouble}; nothing from there until it answers"),
                });
                account.trouble = Some(trouble);
                told
            }
        }
    }

    /// What still stands, of all sources.
    pub(super) fn said(&self, now: Instant) -> Said {
        let mut all = Said::default();
        for account in &self.accounts {
            if let Some((at, said)) = &account.good
                && self.stands(account, *at, now)
            {
                Arc::make_mut(&mut all.claims).extend(&said.claims);
                all.jobs.extend_from_slice(&said.jobs);
            }
        }
        all
    }

    fn stands(&self, account: &Account, at: Instant, now: Instant) -> bool {
        account.trouble.is_none() || now.saturating_duration_since(at) <= self.patience
    }

    pub(super) fn reports(&self, now: Instant) -> Vec<Report> {
        let report = |account: &Account| {
            let good = account.good.as_ref();
            Report {
                kind: account.kind,
                place: account.place.clone(),
                trouble: account.trouble.clone(),
                age: good.map(|(at, _)| now.saturating_duration_since(*at)),
                stands: good.is_some_and(|(at, _)| self.stands(account, *at, now)),
                claims: good.map_or(0, |(_, said)| said.claims.len() + said.jobs.len()),
                skipped: good.map_or(0, |(_, said)| said.claims.skipped()),
                failures: account.failures,
            }
        };
        self.accounts.iter().map(report).collect()
    }
}

#[cfg(test)]
mod tests {
    use mirage_k8s::{Claim, Holder};

    use super::*;

    fn claims(ids: &[&str]) -> Said {
        let holder = Arc::new(Holder {
            namespace: "n".into(),
            pod: "p".into(),
            ..Holder::default()
        });
        let mut claims = Claims::default();
        for id in ids {
            claims.push(Claim::of_id(holder.clone(), id));
        }
        Said::of_claims(claims)
    }

    fn ledger() -> Ledger {
        let sources = vec![
            ("pod-list", "/a".to_owned()),
            ("pod-resources", "/b".to_owned()),
        ];
        Ledger::new(sources, Duration::from_secs(60))
    }

    #[test]
    fn answers_of_all_sources_are_joined() {
        let now = Instant::now();
        let mut ledger = ledger();
        assert!(ledger.said(now).claims.is_empty());
        assert_eq!(ledger.note(0, now, Ok(claims(&["GPU-1"]))), None);
        assert_eq!(ledger.note(1, now, Ok(claims(&["GPU-2", "GPU-3"]))), None);
        assert_eq!(ledger.said(now).claims.len(), 3);
        // A new answer replaces the source's old one.
        ledger.note(1, now, Ok(claims(&[])));
        assert_eq!(ledger.said(now).claims.len(), 1);
    }

    #[test]
    fn a_broken_source_stands_for_as_long_as_there_is_patience() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut ledger = ledger();
        ledger.note(0, at(0), Ok(claims(&["GPU-1"])));
        let told = ledger.note(0, at(10), Err("reading /a: cut short".into()));
        assert!(told.is_some_and(|told| told.contains("stands for 60s")));
        // Told once, not every second.
        assert_eq!(ledger.note(0, at(11), Err("reading /a".into())), None);
        assert_eq!(ledger.said(at(60)).claims.len(), 1);
        let report = &ledger.reports(at(60))[0];
        assert_eq!(report.trouble.as_deref(), Some("reading /a"));
        assert_eq!(
            (report.age, report.stands, report.failures),
            (Some(Duration::from_secs(60)), true, 2)
        );
        assert!(ledger.said(at(61)).claims.is_empty());
        assert!(!ledger.reports(at(61))[0].stands);
        let told = ledger.note(0, at(70), Ok(claims(&["GPU-2"])));
        assert_eq!(told.as_deref(), Some("pod-list /a answers again"));
        assert_eq!(ledger.said(at(70)).claims.len(), 1);
        assert_eq!(ledger.reports(at(70))[0].trouble, None);
    }

    #[test]
    fn a_source_that_never_answered_has_no_age() {
        let now = Instant::now();
        let mut ledger = ledger();
        let told = ledger.note(1, now, Err("socket /b is not there yet".into()));
        assert!(told.is_some_and(|told| told.contains("until it answers")));
        let report = &ledger.reports(now)[1];
        assert_eq!((report.age, report.stands), (None, false));
        assert_eq!(ledger.note(9, now, Ok(claims(&[]))), None);
    }
}
