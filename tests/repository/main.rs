//! What holds of the repository: its dependencies, features and platforms, its documents, and how its files depend on each
//! other.

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
