// Display names for obfuscated identifiers. A random identifier (UUIDv4) is valid for one response only, so such
// domains are numbered; a stable one (UUIDv5), which a policy may refer to, is shown by its prefix.

const RANDOM = /^[0-9a-f]{8}-[0-9a-f]{4}-4/;
const STABLE = /^[0-9a-f]{8}-[0-9a-f]{4}-5/;

/** Returns a display name for each identifier of a scope. */
export function friendly(scope, ids) {
  const names = new Map();
  for (const id of ids) {
    if (id === null || id === undefined || names.has(id)) continue;
    names.set(id, RANDOM.test(id) ? `${scope} ${names.size + 1}` : STABLE.test(id) ? id.slice(0, 8) : id);
  }
  return names;
}

/** Returns a fleet with display names for its hosts and domains. */
export function renamed(fleet) {
  const hosts = friendly("host", fleet.hosts.name);
  const domains = friendly(fleet.scope, fleet.domains);
  return {
    ...fleet,
    hosts: { ...fleet.hosts, name: fleet.hosts.name.map((id) => hosts.get(id)) },
    domains: fleet.domains.map((id) => domains.get(id)),
  };
}
