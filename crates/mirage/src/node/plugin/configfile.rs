//! The config file of NVIDIA's device plugin, version `v1`: what of it says how devices are offered. Keys it has and we
//! have no use for are passed over, as the real one does with those of its companions.

use mirage_model::yaml::{self, Node, Value};

use super::settings::{GDRCOPY, GDS, IdStrategy, Imex, ListStrategy, MOFED, Mig, Sharing, choice};

/// What a file says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ConfigFile {
    pub(super) mig: Option<Mig>,
    pub(super) list: Option<Vec<ListStrategy>>,
    pub(super) ids: Option<IdStrategy>,
    pub(super) pass_nodes: Option<bool>,
    pub(super) annotation_prefix: Option<String>,
    /// Variables that say what else the node has.
    pub(super) features: Vec<&'static str>,
    pub(super) sharing: Sharing,
    pub(super) imex: Imex,
}

/// Keys of what else a node may have, and the variables that say so to containers.
const FEATURES: [(&str, &str); 3] = [
    ("gdrcopyEnabled", GDRCOPY),
    ("gdsEnabled", GDS),
    ("mofedEnabled", MOFED),
];

/// Reads a file; the error says where and what.
pub(super) fn read(text: &str) -> Result<ConfigFile, String> {
    let root = yaml::parse(text).map_err(|problems| {
        let first = problems.first().map(ToString::to_string);
        first.unwrap_or_else(|| "not YAML".into())
    })?;
    let root = At(&root);
    let version = root.get("version").map(At::text).transpose()?;
    if version.as_deref() != Some("v1") {
        return Err(root.wrong("only `version: v1` is known"));
    }
    let mut file = ConfigFile::default();
    if let Some(flags) = root.get("flags") {
        read_flags(flags, &mut file)?;
    }
    let slicing = root
        .get("sharing")
        .and_then(|sharing| sharing.get("timeSlicing"));
    if let Some(slicing) = slicing {
        file.sharing = sharing(slicing)?;
    }
    if let Some(exchange) = root.get("imex") {
        file.imex = imex(exchange)?;
    }
    if let Some(mps) = root.get("sharing").and_then(|sharing| sharing.get("mps")) {
        return Err(mps.wrong("sharing by MPS is not simulated; use timeSlicing"));
    }
    Ok(file)
}

fn read_flags(flags: At<'_>, file: &mut ConfigFile) -> Result<(), String> {
    if let Some(strategy) = flags.get("migStrategy") {
        file.mig = Some(strategy.choice()?);
    }
    for (key, feature) in FEATURES {
        if let Some(on) = flags.get(key)
            && on.truth()?
        {
            file.features.push(feature);
        }
    }
    let Some(plugin) = flags.get("plugin") else {
        return Ok(());
    };
    if let Some(strategy) = plugin.get("deviceIDStrategy") {
        file.ids = Some(strategy.choice()?);
    }
    if let Some(pass) = plugin.get("passDeviceSpecs") {
        file.pass_nodes = Some(pass.truth()?);
    }
    if let Some(prefix) = plugin.get("cdiAnnotationPrefix") {
        file.annotation_prefix = Some(prefix.text()?);
    }
    if let Some(list) = plugin.get("deviceListStrategy") {
        let strategies = match list.items() {
            Some(items) => items.map(At::choice).collect::<Result<Vec<_>, _>>()?,
            None => {
                let text = list.text()?;
                let words = text.split(',').map(|word| choice(word.trim()));
                let all: anyhow::Result<Vec<_>> = words.collect();
                all.map_err(|error| list.wrong(&error.to_string()))?
            }
        };
        file.list = Some(strategies);
    }
    Ok(())
}

fn imex(exchange: At<'_>) -> Result<Imex, String> {
    let mut imex = Imex::default();
    if let Some(ids) = exchange.get("channelIDs") {
        let Some(items) = ids.items() else {
            return Err(ids.wrong("a list of channels is wanted here"));
        };
        let texts = items.map(At::text).collect::<Result<Vec<_>, _>>()?;
        imex.channels = Imex::read(&texts).map_err(|why| ids.wrong(&why))?;
    }
    if let Some(required) = exchange.get("required") {
        imex.required = required.truth()?;
    }
    Ok(imex)
}

fn sharing(slicing: At<'_>) -> Result<Sharing, String> {
    let mut sharing = Sharing::default();
    if let Some(rename) = slicing.get("renameByDefault") {
        sharing.rename = rename.truth()?;
    }
    if let Some(only_one) = slicing.get("failRequestsGreaterThanOne") {
        sharing.only_one = only_one.truth()?;
    }
    let resources = slicing.get("resources");
    let Some(items) = resources.as_ref().and_then(At::items) else {
        return Err(slicing.wrong("timeSlicing needs a list of resources"));
    };
    for item in items {
        let name = item
            .get("name")
            .ok_or_else(|| item.wrong("no name"))?
            .text()?;
        let replicas = item
            .get("replicas")
            .ok_or_else(|| item.wrong("no replicas"))?;
        let count: u32 = replicas
            .text()?
            .parse()
            .map_err(|_| replicas.wrong("no number"))?;
        // One is as good as none, and is taken.
        if count == 0 {
            return Err(replicas.wrong("a device is there at least once"));
        }
        // Without a domain it is NVIDIA's.
        let name = match name.contains('/') {
            true => name,
            false => format!("nvidia.com/{name}"),
        };
        sharing.by_name.push((name, count));
    }
    Ok(sharing)
}

/// A place in the file.
#[derive(Clone, Copy)]
struct At<'a>(&'a Node);

impl<'a> At<'a> {
    fn get(self, key: &str) -> Option<At<'a>> {
        let Value::Mapping(entries) = &self.0.value else {
            return None;
        };
        let found = entries.iter().find(|(known, _)| known.text == key);
        found.map(|(_, node)| At(node)).filter(|at| !at.is_null())
    }

    fn is_null(self) -> bool {
        matches!(&self.0.value, Value::Scalar(scalar)
            if scalar.style == yaml::Style::Plain && matches!(scalar.text.as_str(), "" | "~" | "null"))
    }

    fn items(&self) -> Option<impl Iterator<Item = At<'a>> + use<'a>> {
        match &self.0.value {
            Value::Sequence(items) => Some(items.iter().map(At)),
            _ => None,
        }
    }

    fn text(self) -> Result<String, String> {
        match &self.0.value {
            Value::Scalar(scalar) => Ok(scalar.text.clone()),
            _ => Err(self.wrong("a single value is wanted here")),
        }
    }

    fn truth(self) -> Result<bool, String> {
        match self.text()?.as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(self.wrong("true or false is wanted here")),
        }
    }

    fn choice<T: clap::ValueEnum>(self) -> Result<T, String> {
        choice(&self.text()?).map_err(|error| self.wrong(&error.to_string()))
    }

    fn wrong(self, what: &str) -> String {
        let at = self.0.span.start;
        format!("line {}, column {}: {what}", at.line, at.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nvidias_own_example_is_read() {
        let file = read(
            "version: v1\nflags:\n  migStrategy: mixed\n  failOnInitError: true\n  gdsEnabled: true\n  mofedEnabled: false\n  plugin:\n    \
             cdiAnnotationPrefix: example.com/\n    passDeviceSpecs: true\n    deviceListStrategy: [envvar, cdi-cri]\n    deviceIDStrategy: index\n\
             resources:\n  gpus:\n  - pattern: \"*\"\n    name: gpu\n\
             sharing:\n  timeSlicing:\n    renameByDefault: true\n    failRequestsGreaterThanOne: true\n    \
             resources:\n    - name: nvidia.com/gpu\n      replicas: 4\n    - name: mig-1g.5gb\n      replicas: 2\n      \
             devices: all\n",
        )
        .unwrap();
        assert_eq!(file.mig, Some(Mig::Mixed));
        assert_eq!(
            file.list,
            Some(vec![ListStrategy::Envvar, ListStrategy::CdiCri])
        );
        assert_eq!(file.ids, Some(IdStrategy::Index));
        assert_eq!(file.pass_nodes, Some(true));
        assert_eq!(file.annotation_prefix.as_deref(), Some("example.com/"));
        assert_eq!(file.features, ["NVIDIA_GDS"]);
        assert!(file.sharing.rename && file.sharing.only_one);
        assert_eq!(file.sharing.replicas("nvidia.com/gpu"), Some(4));
        assert_eq!(file.sharing.replicas("nvidia.com/mig-1g.5gb"), Some(2));
        assert_eq!(file.sharing.replicas("nvidia.com/mig-2g.10gb"), None);
        let imex = read("version: v1\nimex: {channelIDs: [0], required: true}").unwrap();
        assert_eq!((imex.imex.channels, imex.imex.required), (vec![0], true));
        let once = "version: v1\nsharing: {timeSlicing: {resources: [{name: gpu, replicas: 1}]}}";
        assert_eq!(read(once).unwrap().sharing.replicas("nvidia.com/gpu"), None);
        let one =
            read("version: v1\nflags: {plugin: {deviceListStrategy: volume-mounts}}").unwrap();
        assert_eq!(one.list, Some(vec![ListStrategy::VolumeMounts]));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, wanted) in [
            ("", "version: v1"),
            ("version: v2", "version: v1"),
            (
                "version: v1\nflags: {migStrategy: some}",
                "line 2, column 22: `some` is none of none, single, mixed",
            ),
            (
                "version: v1\nsharing: {timeSlicing: {}}",
                "line 2, column 24",
            ),
            (
                "version: v1\nsharing: {timeSlicing: {resources: [{name: gpu}]}}",
                "no replicas",
            ),
            (
                "version: v1\nsharing: {timeSlicing: {resources: [{name: gpu, replicas: 0}]}}",
                "at least once",
            ),
            (
                "version: v1\nsharing: {mps: {resources: []}}",
                "not simulated",
            ),
            (
                "version: v1\nimex: {channelIDs: [0, 1]}",
                "line 2, column 20: 0,1: it is 0 or nothing",
            ),
            ("version: [", "line 1"),
        ] {
            let problem = read(text).unwrap_err();
            assert!(problem.contains(wanted), "{text}: {problem}");
        }
    }
}
