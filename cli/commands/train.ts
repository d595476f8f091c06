/** `troupe train`: supervised, by preferences, by advantages, and heads. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { got } from '../../errors.ts';
import { DEFAULTS } from '../../trainer/learn/defaults.ts';
import type { PolicyLossName } from '../../trainer/learn/policy-losses.ts';
import type { ScheduleName } from '../../trainer/learn/schedules.ts';
import type { SftMean } from '../../trainer/learn/sft.ts';
import type { ValueLossName } from '../../trainer/learn/value-head.ts';
import { byteSize, number, plainCommand, positive, wholeNumber } from '../command.ts';
import type { LoraFlag } from '../training/training.ts';

const SFT_LOSSES: readonly SftMean[] = ['token-mean', 'sequence-mean'];

const POLICY_LOSSES: readonly PolicyLossName[] = ['clipped-policy', 'ppo', 'grpo', 'dr-grpo', 'dapo', 'turn-ratio'];

const VALUE_LOSSES: readonly ValueLossName[] = ['mse', 'huber', 'cross-entropy'];

const SCHEDULES: readonly ScheduleName[] = ['constant', 'cosine', 'linear', 'wsd'];

const RESUME = `
Rerun the command to resume an interrupted run where it ended. With one thread its losses are exactly those of an
uninterrupted run.`;

export function addTo(program: Command): void {
  const train = program
    .command('train')
    .addHelpText('after', '\nExample:\n  troupe train sft --model ./model --data chats.jsonl --out checkpoints');
  sftCommand(train);
  dpoCommand(train);
  rlCommand(train);
  valueCommand(train);
  rewardCommand(train);
}

function sftCommand(train: Command): void {
  plainCommand(
    withOrder(withLanguage(train.command('sft').description('supervised fine-tuning'), 'sft'), stepsByRole)
      .addOption(
        new Option('--loss <mean>', 'mean over all tokens of a step, or over its rows of their means')
          .choices([...SFT_LOSSES])
          .default(DEFAULTS.sft_loss),
      )
      .option('--entropy <x>', 'weight of an entropy bonus', fromZero('entropy'), DEFAULTS.entropy)
      .addHelpText(
        'after',
        `
Rows of a file are JSON, one a line:
  {"messages":[{"role":"user","content":"…"},{"role":"assistant","content":"…"}]}   messages of the assistant are learnt
  {"prompt":"…","completion":"…"}                                                   the completion is learnt
  {"request":{"messages":[…]},"response":{"choices":[…]}}                           the first choice is learnt
  {"input_ids":[1,2,3],"loss_mask":[0,1,1]}                                         1: learnt; no mask: all but the first
"tools" beside messages are shown to the model as its chat template writes them; calls of tools are learnt like text.
A row longer than the model's context or --max-length is cut at its end; one with nothing to learn before the cut is left
out. Both are counted. A step has rows of one role of a dataset; the steps of its roles are interleaved. --eval 0.1 holds out a tenth of the tasks of a dataset, of the rows of a file.
${RESUME}

Examples:
  troupe train sft --model ./model --data chats.jsonl --out ./checkpoints --epochs 3 --lr 1e-4 --eval 0.1
  troupe train sft --model ./model --data good-solvers --out ./checkpoints --steps 200 --lora r=8,alpha=16
  troupe train sft --model ./model --data team --out ./checkpoints --steps router=60,checker=200`,
      ),
    async (_, flags) => (await import('../training/training-methods.ts')).trainSft(flags),
  );
}

function dpoCommand(train: Command): void {
  plainCommand(
    withOrder(withLanguage(train.command('dpo').description('direct preference optimisation'), 'dpo'))
      .option(
        '--beta <x>',
        'strength of the penalty for moving away from the reference',
        positiveNumber('beta'),
        DEFAULTS.beta,
      )
      .option(
        '--label-smoothing <x>',
        'assumed share of swapped labels',
        fromZero('label-smoothing', 0.5),
        DEFAULTS.label_smoothing,
      )
      .option('--reference <dir>', 'reference model (default: the model of --model)')
      .addHelpText(
        'after',
        `
Rows of a file are JSON, one a line, with text or messages:
  {"prompt":"…","chosen":"…","rejected":"…"}
Of a dataset of steps the best and the worst answer to one prompt are a pair, by advantage or reward.
${RESUME}

Example:
  troupe train dpo --model ./model --data pairs.jsonl --out ./checkpoints --epochs 1 --lr 5e-6 --beta 0.1`,
      ),
    async (_, flags) => (await import('../training/training-methods.ts')).trainDpo(flags),
  );
}

function rlCommand(train: Command): void {
  plainCommand(
    withLanguage(train.command('rl').description('policy gradient over the advantages of a dataset'), 'rl')
      .addOption(
        new Option('--loss <name>', 'policy gradient loss').choices([...POLICY_LOSSES]).default(DEFAULTS.rl_loss),
      )
      .option('--groups <n>', 'groups in a step', positive('groups'), DEFAULTS.groups)
      .option('--epochs <n>', 'passes over the dataset', positive('epochs'), DEFAULTS.epochs)
      .option('--clip-low <x>', 'lower clip (default: that of the loss)', fromZero('clip-low'))
      .option('--clip-high <x>', 'upper clip (default: that of the loss)', fromZero('clip-high'))
      .option('--entropy <x>', 'weight of an entropy bonus', fromZero('entropy'), DEFAULTS.entropy)
      .option('--kl <x>', 'coefficient of the divergence to the reference (grpo 0.04, others 0)', fromZero('kl'))
      .option('--reference <dir>', 'reference model (default: the model of --model)')
      .addHelpText(
        'after',
        `
The dataset needs a credit and the log-probabilities of its tokens.
${RESUME}

Example:
  troupe train rl --model ./checkpoints/ab12… --data cd34… --out ./checkpoints --groups 16 --lr 5e-4 --loss grpo`,
      ),
    async (_, flags) => (await import('../training/training-methods.ts')).trainRl(flags),
  );
}

function valueCommand(train: Command): void {
  plainCommand(
    withOrder(withCommon(train.command('value').description('a value head that learns what steps earned'), 'value'))
      .addOption(
        new Option('--loss <name>', 'distance of a value from the reward; cross-entropy takes rewards from 0 to 1')
          .choices([...VALUE_LOSSES])
          .default(DEFAULTS.value_loss),
      )
      .addHelpText(
        'after',
        `
Rows of a file are those of train sft with the reward beside them:
  {"prompt":"…","completion":"…","reward":0.5}
Of a dataset of steps the column reward is read; a row without one is omitted and counted. Before each token that is learnt
the head outputs one number, whose target is the reward of the row. A language model gets a new head, which begins at 0; its
checkpoint is what troupe values takes as --model. All weights are trained.
${RESUME}

Examples:
  troupe train value --model ./model --data answers.jsonl --out ./critics --epochs 2 --lr 1e-4 --eval 0.1
  troupe train value --model ./model --data solver-steps --out ./critics --steps 200 --loss huber --policy critic`,
      ),
    async (_, flags) => (await import('../training/training-heads.ts')).trainValue(flags),
  );
}

function rewardCommand(train: Command): void {
  plainCommand(
    withOrder(
      withCommon(train.command('reward').description('a reward head that learns from preferences'), 'reward'),
    ).addHelpText(
      'after',
      `
Rows are those of train dpo: of a file one pair of answers a line, of a dataset of steps the best and the worst answer to one
prompt. The head outputs one number at the last token of an answer, higher for the chosen one (Bradley-Terry). A language
model gets a new head, drawn from --seed. All weights are trained.
${RESUME}

Example:
  troupe train reward --model ./model --data pairs.jsonl --out ./rewards --epochs 1 --lr 1e-5 --eval 0.1 --policy judge`,
    ),
    async (_, flags) => (await import('../training/training-heads.ts')).trainReward(flags),
  );
}

/** The options that every training method has. */
function withCommon(command: Command, method: keyof typeof DEFAULTS.schedule): Command {
  return command
    .requiredOption('--model <dir>', 'directory of the model or checkpoint to start from')
    .requiredOption('--data <data>', 'frozen dataset (folder, id or name) or file of JSON lines')
    .requiredOption(
      '--out <dir>',
      'folder for the checkpoints, or s3://bucket/prefix (uploaded from a folder in the home)',
    )
    .option('--policy <name>', 'record the checkpoint in the project as one of this policy, with its datasets')
    .option('--eval <data>', 'held-out rows: a share (0.1), a file, a dataset, or a split of the dataset')
    .option('--eval-every <n>', 'steps between evaluations (default: only at the end)', positive('eval-every'))
    .option('--patience <n>', 'stop after this many evaluations without an improvement', positive('patience'))
    .option(
      '--lr <x>',
      method === 'rl' ? 'learning rate (default: by the width of the model)' : 'learning rate',
      positiveNumber('lr'),
      method === 'rl' ? undefined : DEFAULTS.learning_rate,
    )
    .addOption(
      new Option('--schedule <name>', 'learning-rate schedule; wsd: constant, the last 30 % down to a tenth')
        .choices([...SCHEDULES])
        .default(DEFAULTS.schedule[method]),
    )
    .option('--warmup <n>', 'warmup steps, or a share of all steps if below 1', fromZero('warmup'), DEFAULTS.warmup)
    .option(
      '--weight-decay <x>',
      'decoupled weight decay, applied to matrices',
      fromZero('weight-decay'),
      DEFAULTS.weight_decay,
    )
    .option('--beta1 <x>', 'beta1 of AdamW', fromZero('beta1', 1), DEFAULTS.beta1)
    .option('--beta2 <x>', 'beta2 of AdamW', fromZero('beta2', 1), DEFAULTS.beta2)
    .option('--clip <x>', 'maximum gradient norm; 0: no clipping', fromZero('clip'), DEFAULTS.clip)
    .option('--max-length <n>', 'maximum row length in tokens; longer rows are truncated', positive('max-length'))
    .option('--seed <n>', 'random seed of the row order', wholeNumber('seed'), 0)
    .option(
      '--checkpoint-every <n>',
      'steps between checkpoints (default: one at the end)',
      positive('checkpoint-every'),
    )
    .option('--keep <n>', 'number of newest checkpoints to keep beside the best', positive('keep'), 1)
    .option('--threads <n>', 'threads of a step; one makes runs repeatable (TROUPE_THREADS, 1)', positive('threads'))
    .option(
      '--recompute',
      'recompute activations in the backward pass: a third more work, a fraction of the memory (sft, rl, value)',
    )
    .option('--report <file>', 'SVG file for the training curves (default: report.svg in --out)')
    .option('--no-report', 'write no training curves')
    .option(
      '--memory-limit <size>',
      'memory that the run may use, such as 2GiB (default: the free memory)',
      byteSize('memory-limit'),
    )
    .option('--no-memory-check', 'start even if the estimate exceeds the memory')
    .option('--resume', 'resume the run in --out; do nothing if it is finished')
    .option('--restart', 'start over if --out holds an unfinished run');
}

/** With those of a model whose head writes tokens. */
const withLanguage = (command: Command, method: 'sft' | 'dpo' | 'rl'): Command =>
  withCommon(command, method)
    .option('--lora <spec>', 'train an adapter, r=8,alpha=16,targets=q_proj,v_proj', loraSpec)
    .option('--onnx', 'write model.onnx into each checkpoint, for ONNX Runtime without Troupe')
    .option('--accuracy', 'measure token accuracy at every step, at the cost of some speed');

function withOrder(command: Command, steps: (text: string) => unknown = positive('steps')): Command {
  const isByRole = steps === stepsByRole;
  return command
    .option(
      '--steps <n>',
      isByRole ? 'optimizer steps; of each role of a dataset, or by role: router=60,checker=200' : 'optimizer steps',
      steps,
    )
    .option('--epochs <n>', 'passes over the rows (default: 1, if --steps is not given)', positiveNumber('epochs'))
    .option('--batch <n>', 'rows in a step', positive('batch'), DEFAULTS.batch)
    .option('--no-shuffle', 'keep the order of the rows, and start again at the first after the last')
    .option('--by-problem', 'train on all rows of a problem in one step, in order');
}

/** `r=8,alpha=16,targets=q_proj,v_proj`: what follows `targets=` up to the next name with `=` are targets. */
export function loraSpec(text: string): LoraFlag {
  const parts: string[] = [];
  for (const part of text.split(',')) {
    if (part.includes('=') || parts.length === 0) parts.push(part);
    else parts[parts.length - 1] += `,${part}`;
  }
  const fields = new Map(parts.map((part) => part.split('=').map((side) => side.trim()) as [string, string]));
  const unknown = [...fields.keys()].find((name) => !['r', 'alpha', 'targets'].includes(name));
  if (unknown !== undefined) throw new InvalidArgumentError(`--lora has no ${got(unknown)}; it has r, alpha, targets.`);
  const r = Number(fields.get('r') ?? 8);
  const alpha = Number(fields.get('alpha') ?? 2 * r);
  if (!Number.isSafeInteger(r) || r < 1) throw new InvalidArgumentError('--lora: r should be a whole number from 1.');
  if (!(alpha > 0)) throw new InvalidArgumentError('--lora: alpha should be a number above 0.');
  const targets = fields.get('targets');
  return { r, alpha, targets: targets && targets !== 'all-linear' ? targets.split(',') : null };
}

/** `200`, or `router=60,checker=200`. */
function stepsByRole(text: string): number | Readonly<Record<string, number>> {
  if (!text.includes('=')) return positive('steps')(text);
  const parts = text.split(',').map((part) => part.trim().split(/=(?=[^=]*$)/) as [string, string?]);
  return Object.fromEntries(parts.map(([role, steps = '']) => [role, positive('steps')(steps)]));
}

const positiveNumber = (name: string) => (text: string) => {
  const value = number(name)(text);
  if (value > 0) return value;
  throw new InvalidArgumentError(`--${name} should be a number above 0.`);
};

const fromZero =
  (name: string, most = Infinity) =>
  (text: string) => {
    const value = number(name)(text);
    if (value >= 0 && value <= most) return value;
    throw new InvalidArgumentError(
      `--${name} should be a number ${most === Infinity ? 'from 0' : `between 0 and ${most}`}.`,
    );
  };
