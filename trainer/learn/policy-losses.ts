/** The policy gradients that `rl` knows by name: a loss, and the rows of a batch with the weights that go with it. */
import { got, TroupeError } from '../../errors.ts';
import { aggregationWeights } from '../model/losses/aggregation.ts';
import { clippedPolicyLoss } from '../model/losses/clipped-policy.ts';
import { withEntropyBonus } from '../model/losses/entropy-bonus.ts';
import { withReferenceKl } from '../model/losses/kl.ts';
import type { Loss } from '../model/losses/loss.ts';
import { POLICY_PRESETS, type PolicyPreset, WIDEST_CLIP } from '../model/losses/policy-presets.ts';
import { ppoClipLoss } from '../model/losses/ppo-clip.ts';
import { turnRatioLoss } from '../model/losses/turn-ratio.ts';
import { NO_TURN, turnSegments } from '../model/losses/turn-segments.ts';
import type { Row } from './data/row.ts';
import type { TrainingRow } from './data/training-rows.ts';

export const POLICY_LOSSES = ['clipped-policy', 'ppo', 'grpo', 'dr-grpo', 'dapo', 'turn-ratio'] as const;
export type PolicyLossName = (typeof POLICY_LOSSES)[number];

/** A row with its log-probabilities under the reference, where a divergence is asked for. */
export type PolicyRow = TrainingRow & { readonly reference?: readonly number[] };

export type PolicyLossOptions = {
  readonly clipLow?: number;
  readonly clipHigh?: number;
  /** Weight of the entropy bonus. */
  readonly entropy?: number;
  /** Coefficient of the divergence to the reference (k3). */
  readonly kl?: number;
};

export type PolicyLoss = {
  readonly loss: Loss;
  /** Rows whose completions share what prompt they can, for one step. */
  readonly rowsOf: (rows: readonly PolicyRow[]) => Row[];
};

/** The presets, and two losses of other forms, which weigh tokens in ways of their own: `byTokens`, `byTurns`. */
const DEFAULTS: Readonly<Record<PolicyLossName, Omit<PolicyPreset, 'aggregation'>>> = {
  ...POLICY_PRESETS,
  'clipped-policy': { clipLow: 0.2, clipHigh: 0.28, kl: 0 },
  'turn-ratio': { clipLow: 0.2, clipHigh: 0.2, kl: 0 },
};

/** The coefficient of the divergence to the reference where none is given. */
export const defaultKl = (name: PolicyLossName): number => DEFAULTS[name].kl;

/** @throws TroupeError `usage` for bounds that are none: every policy gradient here is clipped */
export function policyLoss(name: PolicyLossName, options: PolicyLossOptions = {}): PolicyLoss {
  const { clipLow = DEFAULTS[name].clipLow, clipHigh = DEFAULTS[name].clipHigh, entropy = 0, kl = 0 } = options;
  const bounds = { clipLow, clipHigh };
  requireClip(bounds);
  const plain =
    name === 'clipped-policy'
      ? clippedPolicyLoss(bounds)
      : name === 'turn-ratio'
        ? turnRatioLoss(bounds)
        : ppoClipLoss(bounds);
  // The clipped surrogate has the bonus in itself.
  const withBonus = entropy > 0 && name !== 'clipped-policy' ? withEntropyBonus(plain) : plain;
  const loss = kl > 0 ? withReferenceKl(withBonus) : withBonus;
  return {
    loss,
    rowsOf: (rows) => batchOf(rows, name === 'turn-ratio' ? byTurns(rows) : byTokens(rows, name), { entropy, kl }),
  };
}

function requireClip(bounds: Required<Pick<PolicyLossOptions, 'clipLow' | 'clipHigh'>>): void {
  for (const name of ['clipLow', 'clipHigh'] as const) {
    const most = WIDEST_CLIP[name];
    if (bounds[name] >= 0 && bounds[name] <= most) continue;
    throw new TroupeError(
      'usage',
      `The ${name === 'clipLow' ? 'lower' : 'upper'} clip of the ratio should be from 0 to ${most}, but it is ${got(bounds[name])}; a ratio without bounds is refused, because rows of older weights would train without a limit.`,
      { field: name === 'clipLow' ? 'clip_low' : 'clip_high' },
    );
  }
}

/** What a completion and its row get from the aggregation; a row's segments are distinguished once completions share it. */
type TokenWeights = {
  /** Advantage and mean in one, for each token. */
  readonly weights: readonly number[];
  /** The mean alone: what bonus and divergence are taken with. */
  readonly share: readonly number[];
  /** Where a turn is one number: the weight of the turn that the completion is. */
  readonly turn: number | null;
};

function byTokens(rows: readonly PolicyRow[], name: Exclude<PolicyLossName, 'turn-ratio'>): TokenWeights[] {
  const shares =
    name === 'clipped-policy'
      ? rows.map(({ trained }) => {
          const per = 1 / (rows.length * Math.max(1, trained.filter(Boolean).length));
          return trained.map((on) => (on ? per : 0));
        })
      : aggregationWeights(
          POLICY_PRESETS[name].aggregation,
          rows.map(({ trained }) => trained),
        );
  return rows.map(({ advantage }, i) => ({
    weights: shares[i]!.map((share) => advantage! * share),
    share: shares[i]!,
    turn: null,
  }));
}

/** A row is one turn: one answer of one agent. */
function byTurns(rows: readonly PolicyRow[]): TokenWeights[] {
  const turns = turnSegments(
    rows.map(({ trained, advantage }) => [
      { turn: trained.map((on) => (on ? 0 : NO_TURN)), advantage: trained.map(() => advantage!) },
    ]),
    { aggregation: 'turn' },
  );
  const shares = aggregationWeights(
    'seq-mean-token-mean',
    rows.map(({ trained }) => trained),
  );
  return turns.map(({ completions, segmentWeights }, i) => ({
    weights: completions[0]!.weights,
    share: shares[i]!,
    turn: segmentWeights[0] ?? 0,
  }));
}

/** Completions of one call share its prompt. */
function batchOf(
  rows: readonly PolicyRow[],
  weighed: readonly TokenWeights[],
  { entropy, kl }: { readonly entropy: number; readonly kl: number },
): Row[] {
  const calls = new Map<string, number[]>();
  for (const [i, { callId }] of rows.entries()) {
    const call = calls.get(callId);
    if (call) call.push(i);
    else calls.set(callId, [i]);
  }
  return [...calls.values()].map((call) => {
    const turns = call.map((i) => weighed[i]!.turn).filter((turn) => turn !== null);
    return {
      promptIds: rows[call[0]!]!.promptIds,
      ...(turns.length > 0 ? { segmentWeights: turns } : {}),
      completions: call.map((i, place) => {
        const { tokenIds, logprobs, reference } = rows[i]!;
        const { weights, share, turn } = weighed[i]!;
        return {
          tokenIds,
          weights,
          oldLogprobs: logprobs!,
          entropyWeights: share.map((each) => entropy * each),
          ...(turn === null ? {} : { segments: tokenIds.map(() => place) }),
          ...(kl > 0 ? { klWeights: share.map((each) => kl * each), refLogprobs: reference! } : {}),
        };
      }),
    };
  });
}
