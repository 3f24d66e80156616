//! `netlab explain`: the page of a diagnostic code, or the list of all.

use netlab_core::diagnostic::catalog::{self, Page};
use netlab_core::envelope::Envelope;
use serde::Serialize;

use crate::args::Explain;
use crate::ends::nearest;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::layout::{WIDTH, wrap};
use crate::output::style::{BAD, GOOD, STRONG, Style, paint};
use crate::output::table::Table;
use crate::output::terminal::Terminal;

/// Every code.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Codes {
    codes: Vec<Code>,
}

/// One code.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the field names are the JSON's")]
struct Code {
    code: &'static str,
    title: &'static str,
    explanation: &'static str,
    bad: Option<&'static str>,
    good: Option<&'static str>,
}

impl From<&'static Page> for Code {
    fn from(page: &'static Page) -> Self {
        let example = |text: &'static str| (!text.is_empty()).then_some(text);
        Self {
            code: page.code,
            title: page.title,
            explanation: page.explanation,
            bad: example(page.bad),
            good: example(page.good),
        }
    }
}

/// Prints the page.
pub(crate) fn run(args: &Explain, terminal: &Terminal) -> Result<Exit, Failure> {
    let Some(code) = &args.code else {
        let codes = Codes { codes: catalog::all().map(Code::from).collect() };
        terminal.answer(&Envelope::new("Codes", &codes, Vec::new()), |_| {
            let mut table = Table::new(["CODE", "MEANING"]);
            for page in &codes.codes {
                table.row([page.code.to_owned(), page.title.to_owned()]);
            }
            table.finish()
        })?;
        return Ok(Exit::Yes);
    };
    let Some(page) = catalog::page(code) else {
        let failure = Failure::unreadable(format!("there is no code `{code}`"));
        let wanted = code.to_ascii_uppercase();
        return Err(match nearest(&wanted, catalog::all().map(|page| page.code)) {
            Some(near) => failure.hint(format!("did you mean `{near}`? `netlab explain` lists all")),
            None => failure.hint("`netlab explain` lists all"),
        });
    };
    let code = Code::from(page);
    terminal.answer(&Envelope::new("Code", &code, Vec::new()), |_| render(&code))?;
    Ok(Exit::Yes)
}

fn render(code: &Code) -> String {
    let mut text = format!("{}\n\n", paint(STRONG, &format!("{}: {}", code.code, code.title)));
    for line in wrap(code.explanation, WIDTH) {
        text += &line;
        text.push('\n');
    }
    let mut example = |style: Style, word: &str, yaml: Option<&str>| {
        if let Some(yaml) = yaml {
            text += &format!("\n{}\n", paint(style, word));
            for line in yaml.lines() {
                text += format!("    {line}").trim_end();
                text.push('\n');
            }
        }
    };
    example(BAD, "wrong:", code.bad);
    example(GOOD, "right:", code.good);
    text
}
