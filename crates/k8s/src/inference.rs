//! How many requests inference pods serve, as a Prometheus knows it from Knative: one question for all pods, asked now and then, with
//! a limit of time. A request per second is a percent of utilisation.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use kube::Client;
use serde_json::Value;
use tonic::codegen::http;

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
}

/// A Prometheus.
pub struct Prometheus {
    client: Client,
    url: String,
}

impl std::fmt::Debug for Prometheus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Prometheus").field(&self.url).finish()
    }
}

impl Prometheus {
    /// The one at this address. It has not been spoken to yet.
    pub fn new(url: &str) -> Result<Prometheus, String> {
        let wrong = |why: String| format!("Prometheus at {}: {why}", printable(url));
        let uri: http::Uri = url
            .trim_end_matches('/')
            .parse()
            .map_err(|error: http::uri::InvalidUri| wrong(error.to_string()))?;
        if uri.scheme().is_none() || uri.host().is_none() {
            return Err(wrong("write it as http://host:port".into()));
        }
        let mut config = kube::Config::new(uri);
        config.connect_timeout = Some(ANSWER);
        config.read_timeout = Some(ANSWER);
        let client = Client::try_from(config).map_err(|error| wrong(chain(&error)))?;
        Ok(Prometheus {
            client,
            url: url.to_owned(),
        })
    }

    /// Asks once.
    pub async fn ask(&self) -> Result<Rates, String> {
        let trouble = |why: String| format!("asking Prometheus at {}: {why}", printable(&self.url));
        let path = format!("/api/v1/query?query={}", escaped(QUERY));
        let request = http::Request::get(path)
            .body(Vec::new())
            .map_err(|error| trouble(error.to_string()))?;
        let answer = tokio::time::timeout(ANSWER, self.client.request_text(request)).await;
        let text = answer
            .map_err(|_| trouble(format!("no answer within {ANSWER:?}")))?
            .map_err(|error| trouble(chain(&error)))?;
        Rates::read(&text).map_err(trouble)
    }

    /// Asks for ever, and hands on what changed. An answer lasts a while beyond the next that fails.
    pub async fn follow(&self, put: impl Fn(Rates), tell: impl Fn(Result<(), String>)) {
        let mut last = Rates::default();
        let mut asked: Option<Instant> = None;
        loop {
            let answer = self.ask().await;
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
        for bad in ["", "prometheus", "http://"] {
            assert!(Prometheus::new(bad).is_err(), "{bad}");
        }
        assert_eq!(escaped("a (b[1m])"), "a%20%28b%5B1m%5D%29");
    }
}
