"""The one list of integrations."""

from reconcilers.configuration.integrationnames import INTEGRATIONS
from reconcilers.integrations.registry import list_candidate_platforms, list_platforms
from tests.reconcilers.cli.test_main import run_script

PLATFORMS = list_platforms()


def test_every_integration_of_the_settings_is_registered_once() -> None:
    assert tuple(platform.name for platform in PLATFORMS) == INTEGRATIONS
    assert [platform.name for platform in list_platforms(["metal3"])] == ["metal3"]


def test_no_two_platforms_have_the_same_pools_or_the_same_word_for_pools() -> None:
    kinds = [kind.full_name for platform in PLATFORMS for kind in platform.pools]
    assert len(set(kinds)) == len(kinds)
    assert len({platform.compared_kinds for platform in PLATFORMS}) == len(PLATFORMS)


def test_the_kinds_of_a_platform_include_all_kinds_in_its_other_fields() -> None:
    for platform in PLATFORMS:
        validated = [kind for kind, _ in platform.validated.values()]
        removable = platform.removable.values()
        kinds = {*platform.pools, *platform.fenced_pools, *platform.content_kinds, *validated}
        assert {*kinds, *removable, *platform.implied_kinds} <= {*platform.kinds}


def test_a_platform_is_found_for_an_object_of_each_of_its_kinds() -> None:
    for platform in PLATFORMS:
        for kind in platform.kinds:
            assert platform in list_candidate_platforms([{"apiVersion": f"{kind.group}/v1"}])


def test_a_command_that_reads_only_our_kinds_imports_no_package_of_an_integration() -> None:
    script = (
        "import sys\n"
        "from reconcilers.cli.main import main\n"
        "try:\n    main(['pools', '-f', 'manifests/samples'])\nexcept SystemExit:\n    pass\n"
        "names = ('clusterapi', 'kubermatic', 'metal3', 'vitistack')\n"
        "packages = ['reconcilers.integrations.' + name for name in names]\n"
        "print([name for name in packages if name in sys.modules])\n"
    )
    assert run_script(script).splitlines()[-1] == "[]"
