"""Generates manifests from other manifests: files of the chart, and the one-file install.

A template is text that Helm renders; a template action is a part of it in {{ }}. The chart's
templates are made from the plain manifests in this package.
Run it after a change: `python -m manifests.rendering`, or `make manifests`. Tests fail while a
copy differs from what it is made of. The one-file install needs `kubectl`, whose kustomize
renders it.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
INSTALL = HERE / "install.yaml"
KEEP = """\
  {{- if .Values.crds.keep }}
  annotations:
    helm.sh/resource-policy: keep
  {{- end }}
"""
FULLNAME = '{{ include "butler-ipam.fullname" . }}'
NAMESPACE = "{{ .Release.Namespace }}"
ACCOUNT = '{{ include "butler-ipam.serviceAccount" . }}'
LABELS = '    {{- include "butler-ipam.labels" . | nindent 4 }}\n'
CA_ANNOTATION = """\
  {{- if .Values.webhooks.certManager.enabled }}
  annotations:
    cert-manager.io/inject-ca-from: NAMESPACE/FULLNAME-webhook
  {{- end }}
""".replace("NAMESPACE", NAMESPACE).replace("FULLNAME", FULLNAME)
CLUSTER_API = 'has "clusterapi" .Values.integrations'
KUBERMATIC = 'has "kubermatic" .Values.integrations'
METAL3 = 'has "metal3" .Values.integrations'
VITISTACK = 'has "vitistack" .Values.integrations'
_LOOKUP = '(lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "NAME")'
_SHARDS = '(dig "shards" "" (default (dict) .Values.settings))'
"""The setting; `settings:` with nothing but comments below it is null."""
_MADE_BY = f'(dig "metadata" "labels" "cluster.x-k8s.io/provider" "" {_LOOKUP})'
OURS_TO_DEFINE = f'or (not {_LOOKUP}) (eq "ipam-butler-ipam" {_MADE_BY})'
"""Whether a definition may be written: there is none of that name, or it is one of ours."""
LEASE = "leases"
"""The resource of the lease that elects the leader. The lease is not named after the release, so
that two releases in a namespace never both lead: their role names it as it is."""


def render_files() -> Iterator[tuple[Path, str]]:
    """Yield the path and the content of each file of the chart that is generated."""
    templates = HERE / "chart/templates"
    yield templates / "crds.yaml", _render_crds()
    yield templates / "rbac.yaml", _render_rbac()
    yield templates / "webhooks.yaml", _render_webhooks()
    yield templates / "clusterapi.yaml", _render_cluster_api()
    yield templates / "kubermatic.yaml", _render_if(KUBERMATIC, [_render_roles("kubermatic")])
    yield templates / "metal3.yaml", _render_if(METAL3, [_render_roles("metal3")])
    yield (
        templates / "ui.yaml",
        _render_if(".Values.ui.enabled", [_render_roles("ui", "reader-role")]),
    )
    yield templates / "vitistack.yaml", _render_if(VITISTACK, [_render_roles("vitistack")])
    [rule] = _read_documents("prometheus/alerts.yaml")
    yield HERE / "chart/files/alerts.yaml", _dump_yaml(rule["spec"])
    dashboard = (HERE / "prometheus/dashboard.json").read_text("utf-8")
    yield HERE / "chart/files/dashboard.json", dashboard


def _read_documents(path: str) -> list[Any]:
    """Return the documents of a YAML file in this package."""
    return list(yaml.safe_load_all((HERE / path).read_text("utf-8")))


def _dump_yaml(value: object) -> str:
    """Return a value as YAML, its fields in the given order."""
    # The width keeps each template action on one line, where `_unquote_actions` finds it.
    return yaml.safe_dump(value, sort_keys=False, width=1000)


def _render_if(condition: str, documents: list[str]) -> str:
    """Return a template that renders the documents only if the Helm condition holds."""
    return f"{{{{- if {condition} }}}}\n" + "---\n".join(documents) + "{{- end }}\n"


def _render_crds() -> str:
    """Return the CRDs as a template that renders them if the value crds.enable is true."""
    return _render_if(
        ".Values.crds.enable", [_add_keep_annotation(path) for path in _list_definitions("crds")]
    )


def _list_definitions(folder: str) -> list[Path]:
    """Return the paths of the CRDs in a folder of this package, by name."""
    return sorted((HERE / folder).glob("*_*.yaml"))


def _add_keep_annotation(path: Path) -> str:
    """Return a CRD as a template with an annotation that is rendered if crds.keep is true.

    `helm uninstall` does not delete a CRD with that annotation.
    """
    definition = path.read_text("utf-8")
    head, name, rest = definition.partition(f"metadata:\n  name: {get_definition_name(path)}\n")
    assert name, f"{path} does not begin as the generator writes it"
    return head + name + KEEP + rest


def _render_cluster_api() -> str:
    """Return the objects that the integration with Cluster API needs, as a template.

    Helm does not render a CRD that another installer created in the cluster. `helm template` has
    no cluster in which it could look, and renders all these CRDs.
    """
    definitions = [
        _render_if(
            OURS_TO_DEFINE.replace("NAME", get_definition_name(path)),
            ["---\n" + _add_keep_annotation(path)],
        )
        for path in _list_definitions("clusterapi-crds")
    ]
    sections = [
        _render_if(".Values.crds.enable", ["".join(definitions)]),
        _render_roles("clusterapi"),
    ]
    return _render_if(CLUSTER_API, ["".join(sections)])


def _render_roles(component: str, *more: str) -> str:
    """Return a component's role, its binding and further objects as a template.

    It is rendered only if the value rbac.create is true.

    Args:
        component: the folder of this package that has the files.
        *more: the names of further files in the folder, without `.yaml`.
    """
    names = ("role", "role-binding", *more)
    # The first has a separator before it for templates in which other documents come first.
    first, *others = (
        _render_template(_read_documents(f"{component}/{name}.yaml")[0]) for name in names
    )
    return _render_if(".Values.rbac.create", ["---\n" + first, *others])


def _render_rbac() -> str:
    """Return the roles and bindings as a template, named after the release.

    There are three sections, each with its own value: the roles of the controllers, their further
    role for shards, and the roles for people.
    """
    kustomization: dict[str, list[str]] = _read_documents("rbac/kustomization.yaml")[0]
    controller_roles = [
        _render_template(document)
        for name in kustomization["resources"]
        # The chart has its own template of the ServiceAccount; roles for people follow below.
        if name not in {"service-account.yaml", "people.yaml"}
        for document in _read_documents(f"rbac/{name}")
    ]
    people_roles = [_render_template(document) for document in _read_documents("rbac/people.yaml")]
    shard_roles = [
        _render_template(document)
        for name in ("role.yaml", "role-binding.yaml")
        for document in _read_documents(f"shards/{name}")
    ]
    # Each section after the first begins with a separator, because it follows other documents.
    return (
        _render_if(".Values.rbac.create", controller_roles)
        + _render_if(
            f"and .Values.rbac.create {_SHARDS}", ["---\n" + shard_roles[0], shard_roles[1]]
        )
        + _render_if(".Values.rbac.people", ["---\n" + people_roles[0], *people_roles[1:]])
    )


def _render_webhooks() -> str:
    """Return the ValidatingWebhookConfiguration as a template.

    The webhooks of an integration are rendered only if the integration is enabled.
    """
    [configuration] = _read_documents("webhook/validating.yaml")
    # The files are JSON patches of kustomize; each operation adds a webhook, its `value`.
    webhooks_by_condition: dict[str, list[dict[str, Any]]] = {
        condition: [
            operation["value"] for operation in _read_documents(f"{component}/webhooks.yaml")[0]
        ]
        for condition, component in (
            (CLUSTER_API, "clusterapi"),
            (KUBERMATIC, "kubermatic"),
            (METAL3, "metal3"),
        )
    }
    for webhook in (
        *configuration["webhooks"],
        *(webhook for webhooks in webhooks_by_condition.values() for webhook in webhooks),
    ):
        service = webhook["clientConfig"]["service"]
        service["name"] = service["name"].replace("butler-ipam", FULLNAME)
        service["namespace"] = NAMESPACE
        if webhook["failurePolicy"] == "Ignore":
            continue  # this webhook must never block a write, so no value changes its policy
        webhook["failurePolicy"] = "{{ .Values.webhooks.failurePolicy }}"
        webhook["timeoutSeconds"] = "{{ .Values.webhooks.timeoutSeconds }}"
    template = _render_template(configuration).replace(LABELS, LABELS + CA_ANNOTATION)
    for condition, webhooks in webhooks_by_condition.items():
        template += _render_if(condition, [_unquote_actions(_dump_yaml(webhooks))])
    return _render_if(".Values.webhooks.enabled", [template])


def _render_template(document: dict[str, Any]) -> str:
    """Return an object as a template with the names and the namespace of the release.

    It changes `document` in place: the names in its rules, its roleRef and its first subject.
    """
    meta = document["metadata"]
    head = {"apiVersion": document["apiVersion"], "kind": document["kind"]}
    lines = f"metadata:\n  name: {meta['name'].replace('butler-ipam', FULLNAME)}\n"
    if "namespace" in meta:
        lines += f"  namespace: {NAMESPACE}\n"
    lines += f"  labels:\n{LABELS}"
    lines += "".join(f'    {name}: "{value}"\n' for name, value in meta.get("labels", {}).items())
    body = {key: value for key, value in document.items() if key not in {*head, "metadata"}}
    for rule in body.get("rules", []):
        # The lease keeps its name, because two releases must share it (see LEASE).
        if LEASE not in rule.get("resources", []) and "resourceNames" in rule:
            names = rule["resourceNames"]
            rule["resourceNames"] = [name.replace("butler-ipam", FULLNAME) for name in names]
    if "roleRef" in body:
        body["roleRef"]["name"] = body["roleRef"]["name"].replace("butler-ipam", FULLNAME)
        body["subjects"][0] |= {"name": ACCOUNT, "namespace": NAMESPACE}
    return _dump_yaml(head) + lines + _unquote_actions(_dump_yaml(body))


def _unquote_actions(template: str) -> str:
    """Return YAML without quotes around template actions.

    YAML quotes a string with {{ }}. Helm replaces the action by text, and quotes around the text
    would make a number or a boolean a string.
    """
    return re.sub(r"'([^'\n]*\{\{[^'\n]*)'", r"\1", template)


def get_definition_name(path: Path) -> str:
    """Return the name of the CRD in a file: `group_plural.yaml` contains `plural.group`."""
    group, _, plural = path.stem.rpartition("_")
    return f"{plural}.{group}"


def render_folder(folder: Path) -> str:
    """Return the manifest that kustomize builds from a folder.

    Raises:
        RuntimeError: kubectl is not installed, or it cannot build the folder.
    """
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise RuntimeError("kubectl is needed to render the one-file install; install it")
    done = subprocess.run(  # noqa: S603  # a fixed command on our own files
        [kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"kubectl kustomize {folder}: {done.stderr.strip()}")
    return done.stdout


def main() -> None:
    """Write all generated manifests: the chart's files and the one-file install."""
    for path, content in render_files():
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8")
    INSTALL.write_text(render_folder(HERE / "default"), encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except RuntimeError as problem:
        sys.exit(str(problem))
