"""The problems of invalid fleet files, with their positions."""

import pytest

from covey.fleet_file import FleetFileError, Problem, parse
from covey.fleet_file.problems import Plain, shown

HOST = "vcpus: 1, memory_mb: 1, disk_gb: 0"
NAME_RULE = "must be text of 1 to 255 printable characters, with no white space at either end"
MILLION = "n-[1-1000000]"


def problems_of(text: str) -> list[str]:
    with pytest.raises(FleetFileError) as caught:
        parse(text, "f.yaml")
    return str(caught.value).splitlines()


def host(fields: str) -> str:
    return f"hosts:\n- {{{HOST}, {fields}}}\nscopes: [{{name: rack}}, {{name: switch}}]\n"


def hosts(*entries: str) -> str:
    return "scopes: [{name: rack}, {name: switch}]\nhosts:\n" + "".join(f"- {{{e}, {HOST}}}\n" for e in entries)


SYNTAX = {
    "an unclosed list": (
        "hosts:\n- [a, b\n",
        "3:1: YAML: did not find expected ',' or ']' while parsing a flow sequence",
    ),
    "a range without quotes in a list": (
        "hosts:\n- name: [n-[1-2]]\n",
        (
            "2:12: YAML: did not find expected ',' or ']' while parsing a flow sequence"
            "; a range needs quotes inside [...] or {...}"
        ),
    ),
    "a tab as indentation": (
        "hosts:\n\t- a\n",
        "2:1: YAML: found character that cannot start any token while scanning for the next token",
    ),
    "a control character": ("hosts:\n# \x07\n", "2:3: YAML: the character '\\x07' is not allowed in YAML"),
    "half a surrogate pair": ("# \ud800", "1:3: YAML: the character '\\ud800' is not allowed in YAML"),
    "two documents": (
        "hosts: []\n---\nhosts: []\n",
        "2:1: YAML: a fleet file is one document; a second one starts here",
    ),
    "a key that is a list": ("? [a]\n: b\n", "1:3: YAML: a key must be plain text"),
    "an alias without an anchor": ("hosts: *x\n", "1:8: YAML: alias *x names no anchor that is complete before it"),
    "an alias inside its own anchor": (
        "hosts: &x [*x]\n",
        "1:12: YAML: alias *x names no anchor that is complete before it",
    ),
    "a tag on a scalar": ("hosts: !secret x\n", "1:8: YAML: the tag '!secret' has no meaning here"),
    "a tag on a list": ("hosts: !secret []\n", "1:8: YAML: the tag '!secret' has no meaning here"),
    "a tag on a mapping": ("!!set {a}\n", "1:1: YAML: the tag 'tag:yaml.org,2002:set' has no meaning here"),
    "deep lists": ("[" * 300_000, "1:21: YAML: nested more than 20 levels deep"),
    "deep mappings": ("{a: " * 100_000, "1:81: YAML: nested more than 20 levels deep"),
    "deep block lists": ("- " * 100_000, "1:41: YAML: nested more than 20 levels deep"),
    "a key written twice": (
        "hosts: []\nhosts: []\n",
        "2:1: YAML: key 'hosts' is written twice; the first is on line 1",
    ),
    "a merge of a scalar": ("hosts: []\n<<: 3\n", "2:5: YAML: '<<' takes a mapping, or a list of mappings"),
    "a merge of scalars": ("<<: [3]\n", "1:5: YAML: '<<' takes a mapping, or a list of mappings"),
}
SHAPE = {
    "a list at the top": (
        "- a\n",
        "1:1: top level: must be a mapping with the keys hosts, scopes, aggregates, flavors, images, not a list",
    ),
    "text at the top": (
        "nope",
        "1:1: top level: must be a mapping with the keys hosts, scopes, aggregates, flavors, images, not 'nope'",
    ),
    "an unknown section": ("hostz: []\n", "1:1: hostz: unknown key 'hostz'; did you mean 'hosts'?"),
    "an unknown section like no other": ("zzz: []\n", "1:1: zzz: unknown key 'zzz'"),
    "an unknown key with a line break": ('"a\\nb": 1\n', "1:1: 'a\\nb': unknown key 'a\\nb'"),
    "an unknown key without end": (f'"{"a" * 500}": 1\n', f"1:1: '{'a' * 60}...': unknown key '{'a' * 60}...'"),
    "a section that is no list": ("hosts: 5\n", "1:8: hosts: must be a list of hosts, not 5"),
    "an entry that is no mapping": (
        "scopes:\n  - rack\n",
        "2:5: scopes[0]: must be a mapping with the keys name, allow_identifiers, obfuscate_identifiers, not 'rack'",
    ),
    "an unknown key of a host": (
        host("name: n, memmory_mb: 3"),
        "2:49: hosts[0].memmory_mb: unknown key 'memmory_mb'; did you mean 'memory_mb'?",
    ),
    "text for a number": (
        "flavors:\n- name: f\n  vcpus: many\n  memory_mb: 1\n  disk_gb: 1\n",
        "3:10: flavors[0].vcpus: must be a whole number of at least 1, not 'many'",
    ),
    "no value for a number": (
        "flavors:\n- {name: f, memory_mb: 1, disk_gb: 1, vcpus: }\n",
        "2:46: flavors[0].vcpus: must be a whole number of at least 1, not nothing",
    ),
    "a switch for a number": (
        "flavors:\n- {name: f, memory_mb: 1, disk_gb: 1, vcpus: yes}\n",
        "2:46: flavors[0].vcpus: must be a whole number of at least 1, not true",
    ),
    "a fraction of a cpu": (
        "flavors:\n- {name: f, memory_mb: 1, disk_gb: 1, vcpus: 1.5}\n",
        "2:46: flavors[0].vcpus: must be a whole number of at least 1, not 1.5",
    ),
    "no cpu": (
        "flavors:\n- {name: f, memory_mb: 1, disk_gb: 1, vcpus: 0}\n",
        "2:46: flavors[0].vcpus: must be a whole number of at least 1, not 0",
    ),
    "a disk below zero": (
        "flavors:\n- {name: f, memory_mb: 1, vcpus: 1, disk_gb: -1}\n",
        "2:46: flavors[0].disk_gb: must be a whole number of at least 0, not -1",
    ),
    "too many cpus": (
        "flavors:\n- {name: f, memory_mb: 1, disk_gb: 1, vcpus: 2147483648}\n",
        "2:46: flavors[0].vcpus: must be at most 2147483647, not 2147483648",
    ),
    "a number of very many digits": (
        f"flavors:\n- {{name: f, memory_mb: 1, disk_gb: 1, vcpus: {'9' * 9000}}}\n",
        f"2:46: flavors[0].vcpus: must be a whole number of at least 1, not '{'9' * 60}...'",
    ),
    "what only looks like a number": (
        "flavors:\n- {name: f, memory_mb: 1, disk_gb: 1, vcpus: 0b_}\n",
        "2:46: flavors[0].vcpus: must be a whole number of at least 1, not '0b_'",
    ),
    "a tag that does not fit": (
        "flavors:\n- {name: f, memory_mb: 1, disk_gb: 1, vcpus: !!bool x}\n",
        "2:46: flavors[0].vcpus: must be a whole number of at least 1, not 'x'",
    ),
    "a mapping for a number": (
        "flavors:\n- {name: f, memory_mb: 1, disk_gb: 1, vcpus: {}}\n",
        "2:46: flavors[0].vcpus: must be a whole number of at least 1, not a mapping",
    ),
    "a missing key": ("images:\n  - {}\n", f"2:5: images[0]: needs name, which {NAME_RULE}"),
    "a ratio of zero": (
        host("name: n, ratios: {VCPU: 0}"),
        "2:64: hosts[0].ratios.VCPU: must be a number greater than 0, not 0",
    ),
    "a ratio that is no number": (
        host("name: n, ratios: {VCPU: .nan}"),
        "2:64: hosts[0].ratios.VCPU: must be a number greater than 0, not nan",
    ),
    "a ratio without end": (
        host("name: n, ratios: {VCPU: .inf}"),
        "2:64: hosts[0].ratios.VCPU: must be a number greater than 0, not inf",
    ),
    "a ratio beyond what can be stored": (
        host("name: n, ratios: {VCPU: 1.0e+40}"),
        "2:64: hosts[0].ratios.VCPU: must be at most 3.40282e+38, not 1e+40",
    ),
    "a ratio of an unknown class": (
        host("name: n, ratios: {CPU: 2}"),
        "2:58: hosts[0].ratios.CPU: unknown key 'CPU'; did you mean 'VCPU'?",
    ),
    "a name that is a number": (
        host("name: 12"),
        "2:46: hosts[0].name: must be text, or a list of texts with at least one, not 12; put it in quotes",
    ),
    "no names": (
        host("name: []"),
        "2:46: hosts[0].name: must be text, or a list of texts with at least one, not a list",
    ),
    "a name in a list that is a switch": (
        host("name: [on]"),
        "2:47: hosts[0].name[0]: must be text, not true; put it in quotes",
    ),
    "a scope name with a space": (
        "scopes: [{name: a b}]",
        "1:17: scopes[0].name: must be text of 1 to 255 letters, digits, '_', '-' and '.', not 'a b'",
    ),
    "a scope name that ends a line": (
        'scopes: [{name: "a\\n"}]',
        "1:17: scopes[0].name: must be text of 1 to 255 letters, digits, '_', '-' and '.', not 'a\\n'",
    ),
    "text for a switch": (
        "scopes: [{name: a, allow_identifiers: maybe}]",
        "1:39: scopes[0].allow_identifiers: must be true or false, not 'maybe'",
    ),
    "an empty image name": ("images: [{name: ''}]", f"1:17: images[0].name: {NAME_RULE}, not ''"),
    "an image name with a space before": ("images: [{name: ' a'}]", f"1:17: images[0].name: {NAME_RULE}, not ' a'"),
    "an image name of two lines": ('images: [{name: "a\\nb"}]', f"1:17: images[0].name: {NAME_RULE}, not 'a\\nb'"),
    "an image name too long": (
        f"images: [{{name: {'a' * 256}}}]",
        f"1:17: images[0].name: {NAME_RULE}, not '{'a' * 60}...'",
    ),
    "a flavor id with a slash": (
        "flavors: [{name: f, vcpus: 1, memory_mb: 1, disk_gb: 0, id: a/b}]",
        "1:61: flavors[0].id: must be text of 1 to 255 letters, digits, '.', '_', '-' and inner spaces, not 'a/b'",
    ),
    "a property that is a list": (
        "images: [{name: i, properties: {a: []}}]",
        "1:36: images[0].properties.a: must be text, a number, true or false, not a list",
    ),
    "a property that is nothing": (
        "images: [{name: i, properties: {a: }}]",
        "1:36: images[0].properties.a: must be text, a number, true or false, not nothing",
    ),
}
ENTRIES = {
    "a host name with a space": (
        host("name: a b"),
        "2:46: hosts[0].name: 'a b' must be 1 to 255 letters, digits, '.', '_' and '-'",
    ),
    "a host name that grows too long": (
        host(f'name: "{"n" * 254}[9-10]"'),
        f"2:46: hosts[0].name: '{'n' * 60}...' must be 1 to 255 letters, digits, '.', '_' and '-'",
    ),
    "a range that runs backwards": (
        host('name: [a, "n[9-1]"]'),
        "2:50: hosts[0].name[1]: '[9-1]' runs backwards; write the smaller number first",
    ),
    "too many names in a list": (
        host(f'name: ["{MILLION}", x]'),
        "2:46: hosts[0].name: makes more than 1,000,000 names",
    ),
    "too many hosts in a file": (
        hosts("name: x", f'name: "{MILLION}"'),
        "4:10: hosts[1].name: brings the file to more than 1,000,000 hosts",
    ),
    "fewer zones than hosts": (
        host('name: "n[1-12]", zone: "z[1-5]"'),
        "2:63: hosts[0].zone: 5 names for 12 hosts; write one name for all, or one for each",
    ),
    "more domains than hosts": (
        host("name: n, domains: {rack: [a, b]}"),
        "2:65: hosts[0].domains.rack: 2 names for 1 host; write one name for all, or one for each",
    ),
    "a bad range of domains": (
        host('name: n, domains: {rack: "r[1]"}'),
        "2:65: hosts[0].domains.rack: '[1]' is not a range; write two whole numbers, as in [01-12]",
    ),
    "a zone with a colon": (host('name: n, zone: "a:b"'), "2:55: hosts[0].zone: 'a:b' must not contain ':'"),
    "an empty zone": (host('name: n, zone: ""'), f"2:55: hosts[0].zone: '' {NAME_RULE}"),
    "a domain with a space at its end": (
        host('name: n, domains: {rack: "r "}'),
        f"2:65: hosts[0].domains.rack: 'r ' {NAME_RULE}",
    ),
    "a trait that nearly exists": (
        host("name: n, traits: [CUSTOM_A, HW_CPU_X86_AVX22]"),
        "2:68: hosts[0].traits[1]: 'HW_CPU_X86_AVX22' is not a standard trait; did you mean 'HW_CPU_X86_AVX2'?",
    ),
    "a trait like no other": (
        host("name: n, traits: [qqq]"),
        "2:58: hosts[0].traits[0]: 'qqq' is not a standard trait; a trait of your own starts with CUSTOM_",
    ),
    "a trait in small letters": (
        host("name: n, traits: [custom_ssd]"),
        "2:58: hosts[0].traits[0]: 'custom_ssd' is not a trait; did you mean 'CUSTOM_SSD'?",
    ),
    "a custom trait with a dash": (
        host("name: n, traits: [CUSTOM_A-B]"),
        "2:58: hosts[0].traits[0]: 'CUSTOM_A-B' must be CUSTOM_, then A to Z, 0 to 9 and '_', 255 characters at most",
    ),
    "a custom trait too long": (
        host(f"name: n, traits: [CUSTOM_{'A' * 249}]"),
        (
            f"2:58: hosts[0].traits[0]: 'CUSTOM_{'A' * 53}...' must be CUSTOM_, then A to Z, 0 to 9 and '_', "
            "255 characters at most"
        ),
    ),
    "the scope host declared": (
        "scopes: [{name: host}]",
        "1:17: scopes[0].name: the scope 'host' is built in; it can't be declared",
    ),
    "a zone by metadata": (
        "aggregates: [{name: a, metadata: {availability_zone: z}}]",
        (
            "1:35: aggregates[0].metadata.availability_zone: metadata can't set availability_zone; "
            "use the key 'zone:' instead"
        ),
    ),
    "a scope by metadata": (
        "aggregates: [{name: a, metadata: {policy_scope: rack}}]",
        ("1:35: aggregates[0].metadata.policy_scope: metadata can't set policy_scope; use the key 'scope:' instead"),
    ),
    "an empty key": (
        'images: [{name: i, properties: {"": x}}]',
        "1:33: images[0].properties.'': key '' must be 1 to 255 printable characters",
    ),
    "a value with NUL": (
        'images: [{name: i, properties: {a: "x\\0"}}]',
        "1:36: images[0].properties.a: the character NUL can't be stored",
    ),
}
INVENTORIES = {
    "a size as an inventory": (
        host("name: n, inventories: {VCPU: {total: 1}}"),
        "2:63: hosts[0].inventories.VCPU: VCPU is set by the key 'vcpus:'",
    ),
    "a class in small letters": (
        host("name: n, inventories: {custom_gpu: {total: 1}}"),
        "2:63: hosts[0].inventories.custom_gpu: 'custom_gpu' is not a resource class; did you mean 'CUSTOM_GPU'?",
    ),
    "a class that is almost a standard one": (
        host("name: n, inventories: {PCPUS: {total: 1}}"),
        "2:63: hosts[0].inventories.PCPUS: 'PCPUS' is not a resource class; did you mean 'PCPU'?",
    ),
    "a class of one's own": (
        host("name: n, inventories: {TAPE_DRIVES_OF_OURS: {total: 1}}"),
        (
            "2:63: hosts[0].inventories.TAPE_DRIVES_OF_OURS: 'TAPE_DRIVES_OF_OURS' is not a resource class; "
            "a class of your own starts with CUSTOM_"
        ),
    ),
    "an inventory without a total": (
        host("name: n, inventories: {PCPU: {reserved: 1}}"),
        "2:69: hosts[0].inventories.PCPU: needs total, which must be a whole number of at least 1",
    ),
    "a number as an inventory": (
        host("name: n, inventories: {PCPU: 4}"),
        (
            "2:69: hosts[0].inventories.PCPU: must be a mapping with the keys total, reserved, min_unit, max_unit, "
            "step_size, allocation_ratio, not 4"
        ),
    ),
    "a key that an inventory does not have": (
        host("name: n, inventories: {PCPU: {total: 1, ratio: 2}}"),
        "2:80: hosts[0].inventories.PCPU.ratio: unknown key 'ratio'",
    ),
    "more reserved than there is": (
        host("name: n, inventories: {PCPU: {total: 1, reserved: 2}}"),
        "2:90: hosts[0].inventories.PCPU.reserved: must not exceed the total of 1",
    ),
    "a least size above the largest": (
        host("name: n, inventories: {PCPU: {total: 9, min_unit: 3, max_unit: 2}}"),
        "2:90: hosts[0].inventories.PCPU.min_unit: must not exceed the max_unit of 2",
    ),
}
CROSS = {
    "a host declared twice": (
        hosts("name: a", "name: b", "name: a"),
        "5:10: hosts[2].name: duplicate host 'a'; the first is on line 3",
    ),
    "a range over declared hosts": (
        hosts("name: n2", 'name: "n[1-3]"', 'name: [x, "n[1-3]"]'),
        "4:10: hosts[1].name: duplicate host 'n2'; the first is on line 3",
        "5:14: hosts[2].name[1]: duplicate host 'n1' and 2 more; the first is on line 4",
    ),
    "a product that repeats itself": (
        hosts('name: "n[1-11][1-11]"'),
        "3:10: hosts[0].name: duplicate host 'n111'; the first is on line 3",
    ),
    "a scope declared twice": (
        "scopes:\n- {name: a}\n- {name: a}\n",
        "3:10: scopes[1].name: duplicate scope 'a'; the first is on line 2",
    ),
    "an aggregate declared twice": (
        "aggregates:\n- {name: a}\n- {name: a}\n",
        "3:10: aggregates[1].name: duplicate aggregate 'a'; the first is on line 2",
    ),
    "an image declared twice": (
        "images:\n- {name: a}\n- {name: a}\n",
        "3:10: images[1].name: duplicate image 'a'; the first is on line 2",
    ),
    "a flavor declared twice": (
        f"flavors:\n- {{name: a, {HOST}}}\n- {{name: a, {HOST}}}\n",
        "3:10: flavors[1].name: duplicate flavor 'a'; the first is on line 2",
    ),
    "a flavor id used twice": (
        f"flavors:\n- {{id: '1', name: a, {HOST}}}\n- {{id: '1', name: b, {HOST}}}\n",
        "3:8: flavors[1].id: duplicate flavor id '1'; the first is on line 2",
    ),
    "a domain of an undeclared scope": (
        host("name: n, domains: {rak: r}"),
        "2:59: hosts[0].domains.rak: unknown scope 'rak'; did you mean 'rack'?",
    ),
    "a domain of a scope like no other": (
        host("name: n, domains: {zzz: r}"),
        "2:59: hosts[0].domains.zzz: unknown scope 'zzz'; declare it under 'scopes:'",
    ),
    "a domain of the scope host": (
        host("name: n, domains: {host: r}"),
        "2:59: hosts[0].domains.host: each host is its own domain of the scope 'host'; leave it out",
    ),
    "a domain in two scopes": (
        hosts("name: a, domains: {rack: x}", "name: b, domains: {switch: [x]}"),
        (
            "4:32: hosts[1].domains.switch[0]: 'x' can't name a domain of scope 'switch': "
            "it names a domain of scope 'rack' on line 3"
        ),
    ),
    "a domain named like a zone": (
        hosts("name: a, domains: {rack: x}", "name: b, zone: x"),
        "3:29: hosts[0].domains.rack: 'x' can't name a domain of scope 'rack': it names a zone on line 4",
    ),
    "an aggregate named like a zone": (
        hosts("name: a, zone: x") + "aggregates: [{name: x}]",
        "4:21: aggregates[0].name: 'x' can't name an aggregate: it names a zone on line 3",
    ),
    "an aggregate named like a domain": (
        hosts("name: a, domains: {rack: x}") + "aggregates: [{name: x}]",
        "4:21: aggregates[0].name: 'x' can't name an aggregate: it names a domain of scope 'rack' on line 3",
    ),
    "an aggregate of unknown hosts": (
        hosts("name: a") + 'aggregates: [{name: x, hosts: [a, "b[1-3]", c]}]',
        "4:35: aggregates[0].hosts[1]: unknown host 'b1' and 2 more; declare it under 'hosts:'",
        "4:45: aggregates[0].hosts[2]: unknown host 'c'; declare it under 'hosts:'",
    ),
    "an aggregate with a host twice": (
        hosts("name: a") + "aggregates: [{name: x, hosts: [a, a]}]",
        "4:35: aggregates[0].hosts[1]: duplicate host 'a'; the first is on line 4",
    ),
    "an aggregate with a bad range": (
        "aggregates: [{name: x, hosts: ['[1']}]",
        "1:32: aggregates[0].hosts[0]: a bracket in '[1' has no partner; write a range as in node-[01-12]",
    ),
    "an aggregate of far too many hosts": (
        hosts("name: a") + f'aggregates: [{{name: x, hosts: "{MILLION}"}}]',
        "4:31: aggregates[0].hosts: lists 1000000 hosts, but the file declares only 1",
    ),
}
ALL = {**SYNTAX, **SHAPE, **ENTRIES, **INVENTORIES, **CROSS}


@pytest.mark.parametrize("case", ALL.values(), ids=ALL)
def test_problem_has_a_position_and_a_hint(case: tuple[str, ...]) -> None:
    text, *expected = case
    assert problems_of(text) == [f"f.yaml:{line}" for line in expected]


def test_all_problems_are_reported_in_file_order() -> None:
    text = (
        "hosts:\n- {name: a, vcpus: x}\n- {name: 'b[2-1]', vcpus: 1, memory_mb: 1, disk_gb: 1}\nimages: 3\nimages: 4\n"
    )
    assert [line.split(": ")[0] for line in problems_of(text)] == [
        *["f.yaml:2:3"] * 2,
        "f.yaml:2:20",
        "f.yaml:3:10",
        "f.yaml:4:9",
        "f.yaml:5:1",
    ]


def test_error_has_its_problems_as_values() -> None:
    with pytest.raises(FleetFileError) as caught:
        parse("images: 3", "f.yaml")
    assert caught.value.filename == "f.yaml"
    assert caught.value.problems == (Problem(1, 9, "images", "must be a list of images, not 3"),)


def test_host_problem_does_not_cascade_to_its_aggregate() -> None:
    text = host("name: n, traits: [qqq]") + "aggregates: [{name: a, hosts: [n, m]}]"
    assert len(problems_of(text)) == 1


def test_scope_problem_does_not_cascade_to_its_domains() -> None:
    text = f"hosts: [{{name: n, {HOST}, domains: {{rack: r}}}}]\nscopes: [{{name: rack, allow: true}}]"
    assert len(problems_of(text)) == 1


def test_problem_of_an_aliased_value_has_the_position_of_the_alias() -> None:
    lines = problems_of("images:\n- {name: &n a}\n- {name: *n}\n")
    assert lines == ["f.yaml:3:10: images[1].name: duplicate image 'a'; the first is on line 2"]


def test_problem_inside_an_aliased_value_has_the_position_of_the_anchor() -> None:
    lines = problems_of("images:\n- &i {name: a}\n- *i\n")
    assert lines == ["f.yaml:2:13: images[1].name: duplicate image 'a'; the first is on line 2"]


def test_every_host_with_the_same_problem_is_reported() -> None:
    assert len(problems_of(hosts("name: a, zone: 1", "name: b, zone: 1"))) == 2


def test_multiplying_aliases_are_rejected() -> None:
    levels = "".join(f"- &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))
    assert problems_of("- &a0 [x]\n" + levels) == ["f.yaml:7:23: YAML: aliases repeat more than 1,000,000 values"]


SHOWN = {
    "nothing": None,
    "false": False,
    "'a'": "a",
    "a list": [1],
    "a mapping": {"a": 1},
    "1": 1,
    "1.5": 1.5,
}


@pytest.mark.parametrize(("words", "value"), SHOWN.items(), ids=SHOWN)
def test_values_are_shown_briefly(words: str, value: Plain) -> None:
    assert shown(value) == words
