//! Who talks to the API server, and how.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use k8s_openapi::ByteString;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::ControlPlaneError;
use super::options::User;

/// The first line of every kubeconfig of ours.
///
/// It tells a file that we may write over, left by a process that was killed, from the user's own.
const MARK: &str = "# A throwaway cluster of gpu-scheduler's testbed; worthless once that has stopped.";

/// One user's access to the API server.
#[derive(Debug, Clone)]
pub struct Access {
    url: String,
    authority: String,
    user: String,
    token: String,
}

impl Access {
    pub(super) fn new(url: &str, authority: &str, user: &str, token: &str) -> Self {
        let [url, authority, user, token] = [url, authority, user, token].map(str::to_owned);
        Self { url, authority, user, token }
    }

    /// The same user by another way.
    #[must_use]
    pub fn through(&self, url: &str) -> Self {
        Self { url: url.to_owned(), ..self.clone() }
    }

    /// The user's name.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The bearer token.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The kubeconfig, as YAML that needs no other file.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        // JSON strings are YAML, and names of users have colons.
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let authority = serde_json::json!(ByteString(self.authority.clone().into_bytes()));
        let (url, user, token) = (quoted(&self.url), quoted(&self.user), quoted(&self.token));
        format!(
            "{MARK}
apiVersion: v1
kind: Config
current-context: testbed
clusters:
- name: testbed
  cluster: {{server: {url}, certificate-authority-data: {authority}}}
users:
- name: {user}
  user: {{token: {token}}}
contexts:
- name: testbed
  context: {{cluster: testbed, user: {user}}}
"
        )
    }

    /// Writes the kubeconfig into a file that only its owner reads.
    ///
    /// # Errors
    ///
    /// A file that is there and not one of ours is left alone.
    pub fn write_kubeconfig(&self, path: &Path) -> Result<(), ControlPlaneError> {
        let failed = || ControlPlaneError::system(format!("could not write the kubeconfig {}", path.display()));
        Self::check_kubeconfig(path)?;
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed()(error)),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed())?;
        file.write_all(self.kubeconfig().as_bytes()).map_err(failed())
    }

    /// Whether [`write_kubeconfig`](Self::write_kubeconfig) would write there, for those who ask before they start.
    ///
    /// # Errors
    ///
    /// Something is there that is not a kubeconfig of ours.
    pub fn check_kubeconfig(path: &Path) -> Result<(), ControlPlaneError> {
        match fs::read(path) {
            Ok(bytes) if bytes.starts_with(MARK.as_bytes()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Ok(_) => Err(ControlPlaneError::ForeignFile { path: path.to_owned() }),
            Err(error) => Err(ControlPlaneError::system(format!("could not read {}", path.display()))(error)),
        }
    }

    /// A client. It retries what the API server asks it to retry, as kube does by default.
    ///
    /// # Errors
    ///
    /// None that a started control plane is known to give.
    pub async fn client(&self) -> Result<Client, ControlPlaneError> {
        let config = self.config().await?;
        Client::try_from(config).map_err(ControlPlaneError::request("could not make a client"))
    }

    /// What a client is made of, for those who need one of their own making.
    ///
    /// # Errors
    ///
    /// None that a started control plane is known to give.
    pub async fn config(&self) -> Result<Config, ControlPlaneError> {
        let kubeconfig = Kubeconfig::from_yaml(&self.kubeconfig())?;
        Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
    }
}

/// The users of one control plane, each with a token that nobody can guess: the ports are open to everyone on
/// this machine.
#[derive(Debug)]
pub(super) struct Tokens(Vec<(User, String)>);

impl Tokens {
    pub(super) fn create(users: impl IntoIterator<Item = User>) -> Result<Self, ControlPlaneError> {
        let tokens: io::Result<_> = users.into_iter().map(|user| Ok((user, random_token()?))).collect();
        tokens.map(Self).map_err(ControlPlaneError::system("could not read /dev/urandom"))
    }

    /// The API server's form: `token,user,uid,"group,group"` a line.
    pub(super) fn csv(&self) -> String {
        let mut text = String::new();
        for (user, token) in &self.0 {
            let quoted = |field: &str| format!("\"{}\"", field.replace('"', "\"\""));
            let (name, groups) = (quoted(&user.name), quoted(&user.groups.join(",")));
            writeln!(text, "{token},{name},{name},{groups}").expect("a string takes everything");
        }
        text
    }

    pub(super) fn of(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(user, _)| user.name == name).map(|(_, token)| token.as_str())
    }
}

fn random_token() -> io::Result<String> {
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        Access::new("https://127.0.0.1:20000", "PEM", "system:node:n1", "secret")
    }

    #[test]
    fn the_kubeconfig_is_what_clients_read() {
        let read = Kubeconfig::from_yaml(&access().kubeconfig()).unwrap();
        let cluster = read.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://127.0.0.1:20000"));
        assert_eq!(cluster.certificate_authority_data.as_deref(), Some("UEVN"));
        assert_eq!(read.auth_infos[0].name, "system:node:n1");
        assert_eq!(read.contexts[0].context.as_ref().unwrap().user.as_deref(), Some("system:node:n1"));
    }

    #[test]
    fn only_a_kubeconfig_of_ours_is_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        access().write_kubeconfig(&path).unwrap();
        access().write_kubeconfig(&path).unwrap();
        fs::write(&path, "apiVersion: v1\n").unwrap();
        let error = access().write_kubeconfig(&path).unwrap_err();
        assert!(matches!(error, ControlPlaneError::ForeignFile { .. }), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "apiVersion: v1\n");
    }

    #[test]
    fn groups_are_one_quoted_field() {
        let tokens = Tokens::create([User::new("alice", &["a", "b"]), User::node("n1")]).unwrap();
        let token = tokens.of("alice").unwrap();
        let csv = tokens.csv();
        assert_eq!(csv.lines().next(), Some(format!("{token},\"alice\",\"alice\",\"a,b\"").as_str()));
        assert_ne!(tokens.of("alice"), tokens.of("system:node:n1"));
        assert_eq!(tokens.of("bob"), None);
    }
}
