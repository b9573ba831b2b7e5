//! Which dcgm fields are exported, and what they are called: dcgm-exporter's `-f` file.

use crate::dcgm::fields::{self, FIELDS, Field, Kind, Shipped};
use crate::{Error, csv, nearest};

const TYPES: [&str; 5] = ["gauge", "counter", "histogram", "summary", "label"];

/// The fields of a page, under the names, types and help texts the user's list gives them.
#[derive(Debug, Clone)]
pub struct Selection {
    pub(crate) columns: Vec<Column>,
}

/// One line of a list.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) field: &'static Field,
    pub(crate) name: String,
    pub(crate) prometheus: String,
    pub(crate) help: String,
}

impl Column {
    pub(crate) fn is_label(&self) -> bool {
        self.prometheus == "label"
    }
}

impl Default for Selection {
    fn default() -> Selection {
        Selection::default_set()
    }
}

impl Selection {
    /// The 26 lines dcgm-exporter ships as its default, with help texts of our own.
    pub fn default_set() -> Selection {
        Selection::of(|field| field.shipped == Shipped::Default)
    }

    /// What the real Helm chart's ConfigMap holds: the default without two lines.
    pub fn helm_set() -> Selection {
        Selection::of(|field| field.shipped == Shipped::Default && !matches!(field.id, 1 | 253))
    }

    /// Every field there is; those the simulation cannot answer stay absent.
    pub fn everything() -> Selection {
        Selection::of(|_| true)
    }

    /// The default fields under their names of 1.x, for `old_namespace`.
    pub fn old_set() -> Selection {
        let mut old = Selection::of(|f| f.shipped == Shipped::Default && f.old.is_some());
        for column in &mut old.columns {
            if let Some(name) = &column.field.old {
                column.name.clone_from(name);
            }
        }
        old
    }

    fn of(wanted: impl Fn(&Field) -> bool) -> Selection {
        let columns = FIELDS.iter().filter(|f| wanted(f)).map(|field| Column {
            field,
            name: field.name.clone(),
            prometheus: field.prometheus.clone(),
            help: field.help.clone(),
        });
        Selection {
            columns: columns.collect(),
        }
    }

    /// Reads dcgm-exporter's list: `field, type, help` on each line, `#` comments. `name` is the file's,
    /// for messages. A field may go by any of its names; its first line counts, as in the real one.
    pub fn parse_csv(text: &str, name: &str) -> Result<Selection, Error> {
        let mut columns: Vec<Column> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let column = read(line).map_err(|problem| Error::Selection {
                file: name.to_owned(),
                line: at + 1,
                problem,
            })?;
            if columns.iter().all(|c| c.field.id != column.field.id) {
                columns.push(column);
            }
        }
        if columns.iter().all(Column::is_label) {
            return Err(Error::EmptySelection {
                file: name.to_owned(),
            });
        }
        Ok(Selection { columns })
    }
}

fn read(line: &str) -> Result<Column, String> {
    let columns = csv::columns(line)?;
    let found = columns.len();
    let Ok([name, prometheus, help]) = <[String; 3]>::try_from(columns) else {
        return Err(format!(
            "{found} columns instead of 3 (field, type, help); quote a help text that has commas"
        ));
    };
    let field = fields::find(&name).ok_or_else(|| {
        let near = nearest::nearest(&name, fields::names());
        let shown: String = name.chars().take(80).collect();
        match near {
            Some(near) => format!("field {shown:?} is not known; did you mean {near}?"),
            None => format!("field {shown:?} is not known"),
        }
    })?;
    if !TYPES.contains(&prometheus.as_str()) {
        let shown: String = prometheus.chars().take(80).collect();
        return Err(format!(
            "type {shown:?} of {name} is not one of {}",
            TYPES.join(", ")
        ));
    }
    if field.kind == Kind::Text && prometheus != "label" {
        return Err(format!("{name} holds text: its type has to be label"));
    }
    if field.id >= 9000 && prometheus == "label" {
        return Err(format!("{name} is computed and cannot be a label"));
    }
    Ok(Column {
        field,
        name,
        prometheus,
        help,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        Selection::parse_csv(text, "my.csv")
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn reads_comments_spaces_quotes_and_all_spellings() {
        let text = "# a list\n\n  DCGM_FI_DEV_GPU_UTIL_RATIO , gauge , \"busy, in %\"  \r\n\
                    DCGM_FI_DRIVER_VERSION, label, driver\ndcgm_fb_used, gauge, used\n";
        let selection = Selection::parse_csv(text, "my.csv").unwrap();
        let names: Vec<_> = selection.columns.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "DCGM_FI_DEV_GPU_UTIL_RATIO",
                "DCGM_FI_DRIVER_VERSION",
                "dcgm_fb_used"
            ]
        );
        assert_eq!(selection.columns[0].help, "busy, in %");
        assert!(selection.columns[1].is_label());
    }

    #[test]
    fn the_first_line_of_a_field_counts() {
        let text = "DCGM_FI_DEV_FB_USED, gauge, one\ndcgm_fb_used, gauge, two\n";
        let selection = Selection::parse_csv(text, "x").unwrap();
        assert_eq!(selection.columns.len(), 1);
        assert_eq!(selection.columns[0].help, "one");
    }

    #[test]
    fn errors_name_the_line_and_the_way_out() {
        assert_eq!(
            problem("# x\nDCGM_FI_DEV_GPU_UTL, gauge, busy"),
            "reading field list my.csv, line 2: field \"DCGM_FI_DEV_GPU_UTL\" is not known; \
             did you mean DCGM_FI_DEV_GPU_UTIL?"
        );
        assert!(problem("DCGM_FI_DEV_GPU_UTIL, gauge").contains("2 columns instead of 3"));
        assert!(problem("DCGM_FI_DEV_GPU_UTIL, gauge, a, b").contains("4 columns instead of 3"));
        assert!(problem("DCGM_FI_DEV_GPU_UTIL, gauge, \"a").contains("not closed"));
        assert!(problem("DCGM_FI_DEV_GPU_UTIL, Gauge, a").contains("type \"Gauge\""));
        assert!(problem("DCGM_FI_DRIVER_VERSION, gauge, a").contains("has to be label"));
        assert!(problem("DCGM_EXP_P2P_STATUS, label, a").contains("cannot be a label"));
        assert!(problem("nonsense, gauge, a").ends_with("\"nonsense\" is not known"));
        assert!(problem("").contains("names no field"));
        assert!(problem("DCGM_FI_DRIVER_VERSION, label, a").contains("names no field"));
        assert!(problem(&format!("{}, gauge, a", "é".repeat(5000))).len() < 400);
    }

    #[test]
    fn the_default_is_the_real_one() {
        let names =
            |s: Selection| -> Vec<String> { s.columns.into_iter().map(|c| c.name).collect() };
        assert_eq!(names(Selection::default_set()).len(), 26);
        let helm = names(Selection::helm_set());
        assert_eq!(helm.len(), 24);
        assert!(!helm.contains(&"DCGM_FI_DEV_FB_RESERVED".to_owned()));
        assert!(names(Selection::old_set()).contains(&"dcgm_gpu_utilization".to_owned()));
    }
}
