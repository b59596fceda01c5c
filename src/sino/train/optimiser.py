"""The optimisers: Adam, and SOAP, which is Adam along axes that follow the covariances of the gradient."""

import optax

from sino.train.curriculum import Recipe
from sino.train.soap import scale_by_soap


def optimiser(recipe: Recipe) -> optax.GradientTransformationExtraArgs:
    """AdamW, or SOAP with decoupled weight decay, without the learning rate, which is an argument of the update.

    Its `update` also takes the `index` of the update, from 0.
    """
    clip = [optax.clip_by_global_norm(recipe.clip)] if recipe.clip else []
    scale = {"adam": optax.scale_by_adam, "soap": scale_by_soap}[recipe.optimiser]
    return optax.chain(*clip, scale(), optax.add_decayed_weights(recipe.weight_decay))
