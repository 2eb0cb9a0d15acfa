"""Free text of objects, any text at all, where it is printed, drawn, served or written."""

import json
import unicodedata
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree

import click
import yaml
from hypothesis import given
from hypothesis import strategies as st

from allocator import AddressRange, Capacity
from controller.meta import Key
from reconcilers.addressmap.objects import Objects
from reconcilers.addressmap.page import build_page
from reconcilers.addressmap.pagedata import build_page_state, build_pool_documents
from reconcilers.addressmap.svg import draw_svg
from reconcilers.addressmap.tenants import assign_look_numbers
from reconcilers.cli.cluster.drawing import draw_family
from reconcilers.cli.output import fit_table, render_json, render_yaml, wrap_line
from reconcilers.cli.tables import _ANSWERS, _POOLS, PoolRow, find_answers
from reconcilers.integrations.core.views import Views
from reconcilers.pictures.documents import build_map_document
from reconcilers.pictures.extents import AddressHolder, HeldAddresses, Reserved
from reconcilers.pictures.poolpicture import PoolFamily, PoolPicture, PoolRequest
from reconcilers.reporting.conditions import ConditionFinding
from reconcilers.spaces.offers import PoolName

CIDR = AddressRange.parse_cidr("10.0.0.0/28")
HELD_RANGE = AddressRange.parse("10.0.0.4", "10.0.0.5")
HOSTILE = ("\x1b[2J", "\n", "\r", "\x85", "\u202e", "\u2028", "</script>", "]]>", "\0", "&", '"')
characters = st.characters(exclude_categories=()) | st.sampled_from(HOSTILE)
free_texts = st.lists(characters, max_size=6).map("".join)


def make_picture(texts: list[str]) -> PoolPicture:
    """Return a pool whose parts have these seven texts where authors of objects choose text."""
    name, tenant, note, purpose, reason, family_name, part = texts
    key = Key(name, name)
    holder = AddressHolder(name, key, tenant=tenant, purpose=purpose, phase=reason)
    family = PoolFamily(
        family_name,
        family_name,
        cidr=CIDR,
        usable=(AddressRange.parse("10.0.0.1", "10.0.0.15"),),
        reserved=(Reserved(AddressRange.parse("10.0.0.0", "10.0.0.0"), note),),
        held_addresses=(HeldAddresses(holder, HELD_RANGE),),
        compute_capacity=lambda: Capacity(
            15, 2, available=13, largest_free=10, fragmentation_percent=0
        ),
    )
    request = PoolRequest(name, key, tenant=tenant, purpose=purpose, reason=reason)
    return PoolPicture(
        *(PoolName(name, key), "example.org", [family], [request], "False", reason, part)
    )


picture_texts = st.lists(free_texts, min_size=7, max_size=7)


def find_controls(content: str) -> list[str]:
    """Return the control characters of a text, apart from line feeds and harmless joiners.

    They are characters that a terminal or a JSON, YAML or XML reader acts on, among them those
    that change the direction of text.
    """
    zero_width_joiners = "\u200c\u200d"
    return [
        character
        for character in content
        if character not in f"\n{zero_width_joiners}"
        and (
            unicodedata.category(character) in {"Cc", "Zl", "Zp", "Cs"}
            or unicodedata.bidirectional(character)
            in {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
        )
    ]


@given(picture_texts)
def test_tables_and_maps_have_no_controls_and_one_line_for_each_row(texts: list[str]) -> None:
    pool, pool_of_plain_texts = make_picture(texts), make_picture(["x"] * 7)

    def print_lines(pool_picture: PoolPicture) -> list[str]:
        rows = [PoolRow(pool_picture, pool_picture.families[0])]
        answer_list = list(find_answers([pool_picture], CIDR))
        parts = (
            draw_family(pool_picture, pool_picture.families[0], "wide"),
            fit_table(_POOLS, rows, "wide"),
            fit_table(_ANSWERS, answer_list, "wide"),
        )
        return click.unstyle("".join(parts)).split("\n")

    assert find_controls("\n".join(print_lines(pool))) == []
    assert len(print_lines(pool)) == len(print_lines(pool_of_plain_texts))


@given(picture_texts)
def test_an_svg_is_well_formed_and_texts_do_not_break_out_of_the_data_of_a_page(
    texts: list[str],
) -> None:
    pool = make_picture(texts)
    objects = Objects({}, {}, clusters={}, providers={}, integrations=Views([pool]))
    image = draw_svg(pool.title, pool.families[0], assign_look_numbers(objects))
    assert find_controls(image) == []
    assert ElementTree.fromstring(image).tag.endswith("svg")
    html = build_page(build_page_state(objects, datetime.now(UTC), build_pool_documents(pool)))
    assert find_controls(html) == []
    assert html.count("</script>") == 2, "that of the data, and that of the script"
    data = html.partition('id="data">')[2].partition("</script>")[0]
    assert "<" not in data
    [pool_document] = json.loads(data)["pools"]["set"].values()
    assert len(pool_document["requests"]["set"]) == 1


@given(picture_texts)
def test_documents_have_no_controls_and_keep_the_text_as_it_is_written(texts: list[str]) -> None:
    body: dict[str, Any] = build_map_document(make_picture(texts))
    as_text = render_json(body)
    assert find_controls(as_text) == []
    assert json.loads(as_text) == body
    if not any(unicodedata.category(character) == "Cs" for character in "".join(texts)):
        in_yaml = render_yaml([body])
        assert find_controls(in_yaml) == []
        assert yaml.safe_load(in_yaml) == body


@given(free_texts)
def test_messages_of_conditions_and_wrapped_sentences_are_one_line(content: str) -> None:
    message = ConditionFinding("Ready", False, reason="Stalled", message=content).message
    assert find_controls(message) == []
    assert "\n" not in message
    sentence = wrap_line(content)
    assert find_controls(sentence) == []
    assert sentence.count("\n") == 1
