// Names for places that a tenant may not know by name. A passing identifier holds for one answer only, so such places
// are numbered; one that stays the same, and that a policy may name, is shown by its beginning.

const PASSING = /^[0-9a-f]{8}-[0-9a-f]{4}-4/;
const LASTING = /^[0-9a-f]{8}-[0-9a-f]{4}-5/;

/** A name for each identifier of a scope, in their order. */
export function friendly(scope, ids) {
  const names = new Map();
  for (const id of ids) {
    if (id === null || id === undefined || names.has(id)) continue;
    names.set(id, PASSING.test(id) ? `${scope} ${names.size + 1}` : LASTING.test(id) ? id.slice(0, 8) : id);
  }
  return names;
}

/** A fleet with such names for its hosts and domains. */
export function renamed(fleet) {
  const hosts = friendly("host", fleet.hosts.name);
  const domains = friendly(fleet.scope, fleet.domains);
  return {
    ...fleet,
    hosts: { ...fleet.hosts, name: fleet.hosts.name.map((id) => hosts.get(id)) },
    domains: fleet.domains.map((id) => domains.get(id)),
  };
}
