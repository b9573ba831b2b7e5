//! How many requests inference pods serve, as a Prometheus knows it from Knative: one question for all pods, asked now and then, with
//! a limit of time. A request per second is a percent of utilisation.

use std::collections::HashMap;
use std::str::FromStr;
use std::time::{Duration, Instant};

use kube::Client;
use serde_json::Value;
use tonic::codegen::http;

use crate::activity::Activity;
use crate::error::{chain, printable};

/// What is asked: by pod, whatever of its containers and revisions was counted.
const QUERY: &str = "sum by (namespace, pod) (rate(revision_app_request_count[1m]))";
/// How often.
const EVERY: Duration = Duration::from_secs(10);
/// Most time for an answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How long the last answer is good for when there is no other.
const GOOD: Duration = Duration::from_secs(60);
/// Most pods believed.
const MOST: usize = 100_000;

/// Requests per second by namespace and pod; `None` while nobody counts them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rates(Option<HashMap<(String, String), f64>>);

impl Rates {
    /// Reads the answer to a query.
    pub fn read(text: &str) -> Result<Rates, String> {
        let answer: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if answer["status"] != "success" {
            let why = answer["error"].as_str().unwrap_or("no result");
            return Err(printable(why));
        }
        let list = answer["data"]["result"]
            .as_array()
            .ok_or("the answer has no list of results")?;
        let mut rates = HashMap::new();
        for one in list.iter().take(MOST) {
            let label = |name: &str| one["metric"][name].as_str().map(str::to_owned);
            let value = one["value"][1].as_str();
            let value = value.and_then(|text| text.parse::<f64>().ok());
            if let (Some(namespace), Some(pod), Some(rate)) =
                (label("namespace"), label("pod"), value)
                && rate.is_finite()
            {
                rates.insert((namespace, pod), rate.max(0.0));
            }
        }
        Ok(Rates(Some(rates)))
    }

    /// How busy a pod's requests keep its GPU, in whole percent; `None` while nobody counts requests. A pod that was asked nothing yet is
    /// not in the count.
    pub fn percent(&self, namespace: &str, pod: &str) -> Option<f64> {
        let key = (namespace.to_owned(), pod.to_owned());
        let rate = self.0.as_ref()?.get(&key).copied().unwrap_or(0.0);
        Some(rate.round().min(100.0))
    }

    /// Lets a pod's requests say how busy it is, where they are counted.
    pub(crate) fn keep_busy(&self, namespace: &str, pod: &str, activity: &mut Activity) {
        if let Some(percent) = self.percent(namespace, pod) {
            let fraction = activity.fraction;
            *activity = Activity::constant(percent, percent);
            activity.fraction = fraction;
        }
    }
}

/// Where a Prometheus is.
#[derive(Debug, Clone)]
pub struct Prometheus(http::Uri);

impl FromStr for Prometheus {
    type Err = String;

    fn from_str(url: &str) -> Result<Prometheus, String> {
        let uri: http::Uri = url
            .trim_end_matches('/')
            .parse()
            .map_err(|error: http::uri::InvalidUri| error.to_string())?;
        match uri.scheme_str() {
            Some("http" | "https") if uri.host().is_some() => Ok(Prometheus(uri)),
            _ => Err("write it as http://host:port".into()),
        }
    }
}

impl Prometheus {
    /// A way to it; it has not been spoken to yet.
    fn client(&self) -> Result<Client, String> {
        let mut config = kube::Config::new(self.0.clone());
        config.connect_timeout = Some(ANSWER);
        config.read_timeout = Some(ANSWER);
        Client::try_from(config).map_err(|error| self.trouble(&chain(&error)))
    }

    fn trouble(&self, why: &str) -> String {
        format!("asking Prometheus at {}: {why}", self.0)
    }

    async fn ask(&self, client: &Client) -> Result<Rates, String> {
        let path = format!("/api/v1/query?query={}", escaped(QUERY));
        let request = http::Request::get(path)
            .body(Vec::new())
            .map_err(|error| self.trouble(&error.to_string()))?;
        let answer = tokio::time::timeout(ANSWER, client.request_text(request)).await;
        let text = answer
            .map_err(|_| self.trouble(&format!("no answer within {ANSWER:?}")))?
            .map_err(|error| self.trouble(&chain(&error)))?;
        Rates::read(&text).map_err(|why| self.trouble(&why))
    }

    /// Asks for ever, and hands on what changed. An answer lasts a while beyond the next that fails.
    pub async fn follow(&self, put: impl Fn(Rates), tell: impl Fn(Result<(), String>)) {
        let mut last = Rates::default();
        let mut asked: Option<Instant> = None;
        let client = self.client();
        loop {
            let answer = match &client {
                Ok(client) => self.ask(client).await,
                Err(why) => Err(why.clone()),
            };
            tell(answer.as_ref().map(drop).map_err(Clone::clone));
            let now = Instant::now();
            let rates = match answer {
                Ok(rates) => {
                    asked = Some(now);
                    Some(rates)
                }
                Err(_) if asked.is_some_and(|at| now.duration_since(at) < GOOD) => None,
                Err(_) => Some(Rates::default()),
            };
            if let Some(rates) = rates.filter(|rates| *rates != last) {
                last = rates.clone();
                put(rates);
            }
            tokio::time::sleep(EVERY).await;
        }
    }
}

/// A query as part of an address.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            escaped.push(char::from(byte));
        } else {
            escaped += &format!("%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;

    #[test]
    fn a_request_per_second_is_a_percent() {
        let text = r#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"namespace":"a","pod":"p"},"value":[1,"41.6"]},
            {"metric":{"namespace":"a","pod":"idle"},"value":[1,"0"]},
            {"metric":{"namespace":"b","pod":"p"},"value":[1,"1234"]},
            {"metric":{"namespace":"b","pod":"odd"},"value":[1,"NaN"]},
            {"metric":{"pod":"lost"},"value":[1,"7"]}]}}"#;
        let rates = Rates::read(text).unwrap();
        assert_eq!(rates.percent("a", "p"), Some(42.0));
        // Nothing asked, nothing done.
        assert_eq!(rates.percent("a", "idle"), Some(0.0));
        assert_eq!(rates.percent("b", "p"), Some(100.0));
        for (namespace, pod) in [("b", "odd"), ("", "lost"), ("a", "new")] {
            assert_eq!(rates.percent(namespace, pod), Some(0.0), "{pod}");
        }
        assert_eq!(Rates::default().percent("a", "p"), None);
    }

    #[test]
    fn words_of_other_programs_are_no_rates() {
        for bad in ["", "[]", r#"{"status":"success"}"#] {
            assert!(Rates::read(bad).is_err(), "{bad}");
        }
        let refused = r#"{"status":"error","error":"parse error"}"#;
        assert_eq!(Rates::read(refused).unwrap_err(), "parse error");
        for bad in ["", "prometheus", "http://", "ftp://prometheus"] {
            assert!(bad.parse::<Prometheus>().is_err(), "{bad}");
        }
        assert_eq!(escaped("a (b[1m])"), "a%20%28b%5B1m%5D%29");
    }
}
