/** Every method of Troupe, by what its answer is for. A method that is not on this page cannot be named by a recipe or on the command line. */

import { aegisReward } from './blame/aegis-reward.ts';
import { agentracerClip } from './blame/agentracer-clip.ts';
import { agentracerReward } from './blame/agentracer-reward.ts';
import { attributionF1 } from './blame/attribution-f1.ts';
import { cohenKappa } from './blame/cohen-kappa.ts';
import { decisiveError } from './blame/decisive-error.ts';
import { doverProgress } from './blame/dover-progress.ts';
import { doverVerdict } from './blame/dover-verdict.ts';
import { failureSigns } from './blame/failure-signs.ts';
import { failureSignsWithReference } from './blame/failure-signs-with-reference.ts';
import { injectedLabel } from './blame/injected-label.ts';
import { invertDependencies } from './blame/invert-dependencies.ts';
import { mastDistribution } from './blame/mast-distribution.ts';
import { shapley } from './blame/shapley.ts';
import { whoWhenAccuracy } from './blame/who-when-accuracy.ts';
import { atGrpoAdvantage } from './credit/at-grpo-advantage.ts';
import { causalInfluence } from './credit/causal-influence.ts';
import { cosineGroups } from './credit/cosine-groups.ts';
import { drmasAdvantage } from './credit/drmas-advantage.ts';
import { flooredAdvantage } from './credit/floored-advantage.ts';
import { gae } from './credit/gae.ts';
import { grpoAdvantage } from './credit/grpo-advantage.ts';
import { magrpoCross } from './credit/magrpo-cross.ts';
import { magrpoReturns } from './credit/magrpo-returns.ts';
import { maltValues } from './credit/malt-values.ts';
import { mamrStepAdvantage } from './credit/mamr-step-advantage.ts';
import { marftGae } from './credit/marft-gae.ts';
import { marsTurnAdvantage } from './credit/mars-turn-advantage.ts';
import { maskedWhiten } from './credit/masked-whiten.ts';
import { matpoAdvantage } from './credit/matpo-advantage.ts';
import { matpoLossScale } from './credit/matpo-loss-scale.ts';
import { metaagentxAdvantage } from './credit/metaagentx-advantage.ts';
import { multiagentGrpoAdvantage } from './credit/multiagent-grpo-advantage.ts';
import { restartReward } from './credit/restart-reward.ts';
import { rlooAdvantage } from './credit/rloo-advantage.ts';
import { trlAdvantage } from './credit/trl-advantage.ts';
import { apigenMtBlueprint } from './filters/apigen-mt-blueprint.ts';
import { apigenMtTrajectory } from './filters/apigen-mt-trajectory.ts';
import { consensusFilter } from './filters/consensus-filter.ts';
import { correctnessFilter } from './filters/correctness-filter.ts';
import { criticAgrees } from './filters/critic-agrees.ts';
import { difficultyBand } from './filters/difficulty-band.ts';
import { diversitySelect } from './filters/diversity-select.ts';
import { formatFilter } from './filters/format-filter.ts';
import { interConsistencySelect } from './filters/inter-consistency-select.ts';
import { intraConsistencyAccept } from './filters/intra-consistency-accept.ts';
import { m500Filter } from './filters/m500-filter.ts';
import { majorityFilter } from './filters/majority-filter.ts';
import { mragSelect } from './filters/mrag-select.ts';
import { ownSuccessFilter } from './filters/own-success-filter.ts';
import { pettingGroupFilter } from './filters/petting-group-filter.ts';
import { publicTestsFilter } from './filters/public-tests-filter.ts';
import { rejectEqualReward } from './filters/reject-equal-reward.ts';
import { rocSelect } from './filters/roc-select.ts';
import { rolewiseSftSelect } from './filters/rolewise-sft-select.ts';
import { siriusLibrary } from './filters/sirius-library.ts';
import { wellFormedFilter } from './filters/well-formed-filter.ts';
import type { Method } from './method.ts';
import { dylanConsensus } from './process/dylan-consensus.ts';
import { dylanEdgeWeights } from './process/dylan-edge-weights.ts';
import { dylanImportance } from './process/dylan-importance.ts';
import { masprmBackprop } from './process/masprm-backprop.ts';
import { masprmPathScore } from './process/masprm-path-score.ts';
import { masprmTarget } from './process/masprm-target.ts';
import { masprmTreeKeep } from './process/masprm-tree-keep.ts';
import { uct } from './process/uct.ts';
import { comamRewards } from './rewards/comam-rewards.ts';
import { cosignedRewards } from './rewards/cosigned-rewards.ts';
import { cureBalance } from './rewards/cure-balance.ts';
import { cureCodeReward } from './rewards/cure-code-reward.ts';
import { cureLengthRegularize } from './rewards/cure-length-regularize.ts';
import { cureTestReward } from './rewards/cure-test-reward.ts';
import { dapoOverlong } from './rewards/dapo-overlong.ts';
import { essayRewards } from './rewards/essay-rewards.ts';
import { mars2TreeShaping } from './rewards/mars2-tree-shaping.ts';
import { marsrlRewards } from './rewards/marsrl-rewards.ts';
import { martiShaping } from './rewards/marti-shaping.ts';
import { metaagentxRewards } from './rewards/metaagentx-rewards.ts';
import { mmoaRewards } from './rewards/mmoa-rewards.ts';
import { pettingMixedReward } from './rewards/petting-mixed-reward.ts';
import { pettingTurnReward } from './rewards/petting-turn-reward.ts';
import { remaReward } from './rewards/rema-reward.ts';
import { unitymasCodeRewards } from './rewards/unitymas-code-rewards.ts';
import { unitymasMathRewards } from './rewards/unitymas-math-rewards.ts';
import { unitymasSearchRewards } from './rewards/unitymas-search-rewards.ts';
import { unitymasTerminalRewards } from './rewards/unitymas-terminal-rewards.ts';
import { agreementScore } from './scores/agreement-score.ts';
import { bestOfN } from './scores/best-of-n.ts';
import { bonSelect } from './scores/bon-select.ts';
import { boxedAnswer } from './scores/boxed-answer.ts';
import { curePrecision } from './scores/cure-precision.ts';
import { drmasScaleRatio } from './scores/drmas-scale-ratio.ts';
import { ifd } from './scores/ifd.ts';
import { interConsistencyScore } from './scores/inter-consistency-score.ts';
import { majorityOfN } from './scores/majority-of-n.ts';
import { milestoneKpi } from './scores/milestone-kpi.ts';
import { normaliseAnswer } from './scores/normalise-answer.ts';
import { passAt1 } from './scores/pass-at-1.ts';
import { progressRate } from './scores/progress-rate.ts';
import { rangeNormalizedVariance } from './scores/range-normalized-variance.ts';
import { rejectionRate } from './scores/rejection-rate.ts';
import { rocFormatPenalty } from './scores/roc-format-penalty.ts';
import { rocToolPenalty } from './scores/roc-tool-penalty.ts';
import { starAgentsEvolve } from './scores/star-agents-evolve.ts';
import { starAgentsScore } from './scores/star-agents-score.ts';
import { tokenF1 } from './scores/token-f1.ts';
import { trustUpdate } from './scores/trust-update.ts';
import { verifierPrecision } from './scores/verifier-precision.ts';

export const METHODS: readonly Method[] = [
  apigenMtBlueprint,
  apigenMtTrajectory,
  consensusFilter,
  correctnessFilter,
  criticAgrees,
  difficultyBand,
  diversitySelect,
  formatFilter,
  interConsistencySelect,
  intraConsistencyAccept,
  m500Filter,
  majorityFilter,
  mragSelect,
  ownSuccessFilter,
  pettingGroupFilter,
  publicTestsFilter,
  rejectEqualReward,
  rocSelect,
  rolewiseSftSelect,
  siriusLibrary,
  wellFormedFilter,
  agreementScore,
  bestOfN,
  bonSelect,
  boxedAnswer,
  curePrecision,
  drmasScaleRatio,
  ifd,
  interConsistencyScore,
  majorityOfN,
  milestoneKpi,
  normaliseAnswer,
  passAt1,
  progressRate,
  rangeNormalizedVariance,
  rejectionRate,
  rocFormatPenalty,
  rocToolPenalty,
  starAgentsEvolve,
  starAgentsScore,
  tokenF1,
  trustUpdate,
  verifierPrecision,
  comamRewards,
  cosignedRewards,
  cureBalance,
  cureCodeReward,
  cureLengthRegularize,
  cureTestReward,
  dapoOverlong,
  essayRewards,
  mars2TreeShaping,
  marsrlRewards,
  martiShaping,
  metaagentxRewards,
  mmoaRewards,
  pettingMixedReward,
  pettingTurnReward,
  remaReward,
  unitymasCodeRewards,
  unitymasMathRewards,
  unitymasSearchRewards,
  unitymasTerminalRewards,
  atGrpoAdvantage,
  causalInfluence,
  cosineGroups,
  drmasAdvantage,
  flooredAdvantage,
  gae,
  grpoAdvantage,
  magrpoCross,
  magrpoReturns,
  maltValues,
  mamrStepAdvantage,
  marftGae,
  marsTurnAdvantage,
  maskedWhiten,
  matpoAdvantage,
  matpoLossScale,
  metaagentxAdvantage,
  multiagentGrpoAdvantage,
  restartReward,
  rlooAdvantage,
  trlAdvantage,
  dylanConsensus,
  dylanEdgeWeights,
  dylanImportance,
  masprmBackprop,
  masprmPathScore,
  masprmTarget,
  masprmTreeKeep,
  uct,
  aegisReward,
  agentracerClip,
  agentracerReward,
  attributionF1,
  cohenKappa,
  decisiveError,
  doverProgress,
  doverVerdict,
  failureSigns,
  failureSignsWithReference,
  injectedLabel,
  invertDependencies,
  mastDistribution,
  shapley,
  whoWhenAccuracy,
];
