//! What holds of the repository: its dependencies, features and platforms, its documents, and how its files depend on each
//! other.

mod dependencies;
mod features;
mod imports;
mod platforms;
mod readme;
mod types;
