//! What an Xid is called and which DCGM health watch it trips: `data/xid.csv`, read once.

use std::sync::LazyLock;

use crate::csv;

/// An Xid.
#[derive(Debug)]
pub(crate) struct Xid {
    pub(crate) number: u64,
    /// The health watch it trips and how badly, if any.
    pub(crate) trips: Option<Trip>,
    pub(crate) message: String,
}

/// A tripped health watch.
#[derive(Debug)]
pub(crate) struct Trip {
    pub(crate) watch: String,
    /// 10 warns, 20 fails.
    pub(crate) severity: u64,
    pub(crate) code: String,
}

static XIDS: LazyLock<Vec<Xid>> = LazyLock::new(|| {
    include_str!("../../data/xid.csv")
        .lines()
        .skip(1)
        .map(|line| read(line).unwrap_or_else(|problem| panic!("Xid table: {line}: {problem}")))
        .collect()
});

fn read(line: &str) -> Result<Xid, String> {
    let [number, watch, severity, code, message] =
        <[String; 5]>::try_from(csv::columns(line)?).map_err(|c| format!("{} columns", c.len()))?;
    let trips = match severity.as_str() {
        "warn" => Some(10),
        "fail" => Some(20),
        _ => None,
    };
    Ok(Xid {
        number: number.parse().map_err(|_| "number".to_owned())?,
        trips: trips.map(|severity| Trip {
            watch,
            severity,
            code,
        }),
        message,
    })
}

/// The Xid of a number.
pub(crate) fn find(number: u64) -> Option<&'static Xid> {
    let at = XIDS.binary_search_by_key(&number, |x| x.number).ok()?;
    Some(&XIDS[at])
}

/// What `err_msg` says.
pub(crate) fn message(number: u64) -> &'static str {
    match number {
        0 => "No Error",
        _ => find(number).map_or("Unknown Error", |x| &x.message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_reads_whole_and_in_order() {
        assert!(XIDS.len() > 50);
        assert!(XIDS.is_sorted_by_key(|x| x.number));
        let lost = find(79).unwrap().trips.as_ref().unwrap();
        assert_eq!((lost.watch.as_str(), lost.severity), ("ALL", 20));
        assert_eq!(message(0), "No Error");
        assert_eq!(message(1_000_000), "Unknown Error");
    }
}
