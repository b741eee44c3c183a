//! `leasehold completions SHELL` and `leasehold man`.

use std::{fs, io};

use clap::CommandFactory;

use crate::{
    arguments::{Arguments, Completions, Man},
    exit,
    failure::Failure,
    output::{Output, unwritable},
    system_error::words,
};

pub(crate) fn completions(completions: &Completions, output: Output) -> Result<u8, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(completions.shell, &mut Arguments::command(), PROGRAM, &mut text);
    output.print(String::from_utf8_lossy(&text).trim_end())?;
    Ok(exit::SUCCESS)
}

pub(crate) fn man(man: &Man, output: Output) -> Result<u8, Failure> {
    match &man.dir {
        Some(dir) => fs::create_dir_all(dir)
            .and_then(|()| clap_mangen::generate_to(Arguments::command(), dir))
            .map_err(|error| {
                Failure::new(exit::OUTPUT, format!("--dir {}: {}", dir.display(), words(&error)))
            })?,
        None => output.print(page().map_err(|error| unwritable(&error))?.trim_end())?,
    }
    Ok(exit::SUCCESS)
}

fn page() -> io::Result<String> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Arguments::command()).render(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

const PROGRAM: &str = "leasehold";
