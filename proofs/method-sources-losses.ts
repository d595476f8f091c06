/** The published code of losses, and the inputs they are compared on. */
import type { Draw } from './draw.ts';
import { DOUBLE, type MethodSource } from './method-source.ts';

const CORE = 'verl/trainer/ppo/core_algos.py';
const TENSORS = 'verl/utils/torch_functional.py';
const verl = { project: 'verl', files: [CORE, TENSORS], tolerance: DOUBLE } as const;
const MODES = ['token-mean', 'seq-mean-token-sum', 'seq-mean-token-mean', 'seq-mean-token-sum-norm'];

/** A matrix and a mask beside it in which the first row counts, and others may not. */
const masked = (draw: Draw) => {
  const [rows, tokens] = [draw.integer(1, 6), draw.integer(1, 12)];
  const matrix = (low: number, high: number) => draw.list(rows, () => draw.list(tokens, () => draw.uniform(low, high)));
  const mask = draw.list(rows, (row) => (row === 0 ? [1, ...draw.bits(tokens - 1)] : draw.bits(tokens)));
  return { matrix, mask };
};

export const LOSSES: readonly MethodSource[] = [
  {
    ...verl,
    method: 'kl_estimators',
    published: 'kl_estimators',
    draw: ({ uniform, one }) => {
      const logp = -uniform(0, one([0.01, 5, 40]));
      return { logp, ref_logp: one([logp, -uniform(0, 5), -uniform(0, 60)]) };
    },
  },
  {
    ...verl,
    method: 'ppo_clip_loss',
    published: 'ppo_clip_loss',
    draw: (draw) => {
      const { matrix, mask } = masked(draw);
      const [clip_low, clip_high, clip_c] = [draw.one([0.2, 0.1]), draw.one([0.2, 0.28]), draw.one([3, 1.5, 10])];
      const logps = { logp: matrix(-6, 0), old_logp: matrix(draw.one([-6, -30]), 0), advantages: matrix(-2, 2) };
      return { ...logps, mask, clip_low, clip_high, clip_c, agg: draw.one(MODES) };
    },
    compared: ({ loss }: { readonly loss: number }) => loss,
  },
  {
    ...verl,
    method: 'agg_loss',
    published: 'agg_loss',
    draw: (draw) => {
      const { matrix, mask } = masked(draw);
      return { loss: matrix(-2, 4), mask, mode: draw.one(MODES), norm: draw.one([null, 7, 512]) };
    },
  },
  {
    ...verl,
    method: 'value_clip_loss',
    published: 'value_clip_loss',
    draw: (draw) => {
      const { matrix, mask } = masked(draw);
      const column = () => matrix(-2, 2)[0]!;
      return { pred: column(), old: column(), returns: column(), mask: mask[0]!, clip: draw.one([0, 0.2, 0.5, 3]) };
    },
  },
  {
    method: 'dpo_loss',
    project: 'trl',
    files: ['trl/trainer/dpo_trainer.py'],
    published: 'dpo_loss',
    tolerance: DOUBLE,
    draw: ({ uniform, one }) => {
      const logp = () => -uniform(0, one([1, 50, 3000]));
      const chosen = { pol_chosen: logp(), ref_chosen: logp() };
      return { beta: one([0.1, 0.5, 0.01]), ...chosen, pol_rejected: logp(), ref_rejected: logp() };
    },
  },
  {
    method: 'agg_loss',
    project: 'langfengQ/DrMAS',
    files: [CORE, TENSORS],
    published: 'agg_loss_before',
    tolerance: DOUBLE,
    draw: (draw) => {
      const { matrix, mask } = masked(draw);
      return { loss: matrix(-2, 4), mask, mode: 'token-sum-norm' };
    },
  },
  {
    method: 'matpo_loss_scale',
    project: 'mzf666/MATPO',
    files: [CORE, TENSORS],
    published: 'matpo_loss',
    tolerance: DOUBLE,
    draw: ({ uniform, integer, one }) => {
      const batch_size = integer(1, 64);
      const aggregation = one(['seq-mean-token-mean', 'seq-mean-token-sum', 'token-mean']);
      return { loss: uniform(-3, 3), batch_size, num_main: integer(0, batch_size), aggregation };
    },
  },
  {
    method: 'turn_ratio_loss',
    project: 'ziyuwan/ReMA-public',
    files: ['src/verl/verl/rema_trainer/ppo/core_algos.py', 'src/verl/verl/utils/torch_functional.py'],
    published: 'turn_ratio_loss',
    tolerance: DOUBLE,
    draw: (draw) => {
      const turn = draw.list(draw.integer(1, 5), (at) => draw.list(draw.integer(1, 6), () => at)).flat();
      const outside = turn.map((one) => (draw.chance(0.2) && turn.indexOf(one) !== turn.lastIndexOf(one) ? -100 : one));
      const kept = outside.every((one) => one === -100) ? turn : outside;
      const [ratios, advantages] = [draw.one([0.3, 6]), draw.one([1, -1])];
      const columns = {
        log_ratio: kept.map(() => draw.uniform(-ratios, ratios)),
        advantage: kept.map(() => draw.uniform(-1, 2) * advantages),
      };
      const clip = { clip_low: 0.2, clip_high: draw.one([0.2, 0.28]), clip_c: draw.one([3, 1.5]), log_ratio_clip_c: 3 };
      return { ...columns, turn: kept, ...clip };
    },
    compared: ({ loss }: { readonly loss: number }) => loss,
  },
];
