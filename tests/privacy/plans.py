"""Plans of every shape, for the tests of what they cost."""

from understudy.privacy.plan import PlannedMechanism

FIND = PlannedMechanism(name="find", mechanism="discrete gaussian", share=0.08, times=8)
RESOLVE = PlannedMechanism(name="resolve", mechanism="discrete gaussian", share=0.32, times=8)
MOMENTS = PlannedMechanism(name="moments", mechanism="gaussian", share=0.6)
CATEGORIES = PlannedMechanism(
    name="categories", mechanism="gaussian threshold", share=0.1, times=3, threshold_delta=1e-8
)
SELECT = PlannedMechanism(name="select", mechanism="exponential", share=0.3, times=20)
ADAPTIVE = PlannedMechanism(name="adaptive", mechanism="privacy filter", share=0.5)
TRAIN = PlannedMechanism(name="train", mechanism="sampled gaussian", share=2.0, times=2000, sampling_rate=0.06)
PLANS = {
    "one gaussian": [MOMENTS],
    "gaussians": [FIND, RESOLVE, MOMENTS],
    "thresholds": [FIND, MOMENTS, CATEGORIES],
    "sampled": [FIND, MOMENTS, TRAIN],
    "selection": [FIND, MOMENTS, SELECT],
    "filter": [FIND, ADAPTIVE],
    "all": [FIND, MOMENTS, CATEGORIES, SELECT, TRAIN],
}
