"""Recipes: rollout lengths, learning rates, and what is refused."""

import math
from dataclasses import replace

import pytest

from sino.core.errors import UserError
from sino.train.curriculum import COMPILATIONS, OURS, OURS_2D, Recipe, Stage, check_recipe, paper_stages, recipe_for


def test_the_papers_schedule_is_its_formula():
    recipe = recipe_for("paper", 300, 64, weight_decay=1e-3)
    lengths = [min(10 + 15 * ((epoch - 1) // 10), 300) for epoch in range(1, 301)]
    assert [recipe.frames(epoch) for epoch in range(300)] == lengths
    assert recipe.epochs == 300 and recipe.longest == 300 and len(recipe.stages) == 21
    assert recipe.weight_decay == 1e-3 and recipe.loss == "mse" and recipe.windows == "first"
    with pytest.raises(IndexError):
        recipe.frames(300)


@pytest.mark.parametrize("longest", [10, 24, 120, 300])
def test_four_programs_serve_every_length(longest):
    recipe = Recipe(paper_stages(longest))
    lengths = [stage.frames for stage in recipe.stages]
    buckets = {length: recipe.bucket(length) for length in lengths}
    assert len(set(buckets.values())) <= COMPILATIONS
    assert all(bucket >= length for length, bucket in buckets.items())
    assert set(buckets.values()) <= set(lengths) and buckets[longest] == longest
    assert sum(stage.epochs for stage in recipe.stages) == 300


@pytest.mark.parametrize("recipe", [recipe_for(s, f, 64) for s in ("ours", "paper") for f in (10, 25, 120, 300)])
def test_the_chunk_divides_every_length_and_bucket(recipe):
    for stage in recipe.stages:
        assert stage.frames % recipe.chunk == 0 and recipe.bucket(stage.frames) % recipe.chunk == 0


def test_few_lengths_keep_their_own_programs():
    recipe = Recipe((Stage(10, 1), Stage(20, 2), Stage(30, 1), Stage(60, 1)))
    assert [recipe.bucket(k) for k in (10, 20, 30, 60)] == [10, 20, 30, 60]
    assert [recipe.frames(epoch) for epoch in range(5)] == [10, 20, 20, 30, 60]


def test_the_rate_rises_over_the_warmup_and_falls_along_a_cosine():
    recipe = Recipe((Stage(1, 1),), learning_rate=0.2, warmup=0.1)
    assert recipe.rate(0.0) == 0
    assert recipe.rate(0.05) == pytest.approx(0.1)
    assert recipe.rate(0.1) == pytest.approx(0.2)
    assert recipe.rate(0.55) == pytest.approx(0.1)
    assert recipe.rate(0.325) == pytest.approx(0.1 * (1 + math.sqrt(0.5)))
    assert recipe.rate(1.0) == pytest.approx(0, abs=1e-15)
    assert Recipe((Stage(1, 1),), learning_rate=0.2).rate(0.0) == 0.2


def test_a_short_window_shortens_every_stage():
    ours = recipe_for("ours", 10, 4)
    assert {stage.frames for stage in ours.stages} == {10} and ours.epochs == OURS.epochs
    assert ours.chunk == ours.longest == ours.bucket(10) == 10
    assert recipe_for("ours", 7, 4).longest == 7
    assert recipe_for("ours", 300, 64, dim=2) == recipe_for("ours", 300, 64, dim=3) == OURS_2D
    assert recipe_for("paper", 10, 4).stages == (Stage(10, 300),)
    for recipe in (ours, recipe_for("paper", 10, 4)):
        check_recipe(recipe, 10)


@pytest.mark.parametrize("trajectories, passes", [(64, 1), (16, 4), (4, 16), (1, 64), (1000, 1)])
def test_few_trajectories_are_seen_more_often(trajectories, passes):
    assert recipe_for("ours", 300, trajectories).passes == passes
    assert recipe_for("paper", 300, trajectories).passes == 1


@pytest.mark.parametrize(
    "change, named",
    [
        ({"batch": 0}, "--batch"),
        ({"passes": 0}, "--passes"),
        ({"learning_rate": -1.0}, "--learning-rate"),
        ({"learning_rate": math.nan}, "--learning-rate"),
        ({"warmup": 1.0}, "--warmup"),
        ({"weight_decay": -1e-3}, "--weight-decay"),
        ({"clip": -1.0}, "--clip"),
        ({"noise": -0.1}, "--noise"),
        ({"average": 1.0}, "--average"),
        ({"stages": ()}, "at least one frame"),
        ({"stages": (Stage(0, 1),)}, "at least one frame"),
        ({"stages": (Stage(5, 0),)}, "one epoch"),
        ({"stages": (Stage(151, 1),)}, "151 frames does not fit the training window of 150"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(change, named):
    check_recipe(OURS, OURS.longest)
    with pytest.raises(UserError, match=named):
        check_recipe(replace(OURS, **change), OURS.longest)
