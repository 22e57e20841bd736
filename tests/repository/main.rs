//! Tests of the repository: dependencies, features, platforms, documents, imports and names.

mod api;
mod dependencies;
mod features;
mod files;
mod imports;
mod links;
mod log_lines;
mod platforms;
mod prose;
mod readme;
mod types;
