/**
 * Proof that a checkpoint of Troupe is a model of everybody's: transformers loads it without a word about missing weights,
 * reads text and chats as the same ids and masks, and gives the same log-probabilities; and what transformers then saves,
 * Troupe opens as the same model again.
 */
import { join } from 'node:path';
import { newModelDirectory, type OpenModel, openModel } from '../trainer/model-directory.ts';
import { initialWeights } from '../trainer/models/llama.ts';
import { Policy, type ScoreRow } from '../trainer/policy.ts';
import { randomStream } from '../trainer/random.ts';
import type { ChatMessage } from '../trainer/template.ts';
import { wordTokenizer } from '../trainer/tokenizer.ts';
import type { ModelConfig, Weights } from '../trainer/weights.ts';
import { askPython } from './python.ts';

type Setting = {
  /** Fewer rows where true. */
  readonly short: boolean;
  /** A Python that has torch, transformers and safetensors. */
  readonly python: string;
  /** An empty folder of this proof's own. */
  readonly scratch: string;
  readonly say: (line: string) => void;
};

type Answers = {
  readonly versions: { readonly torch: string; readonly transformers: string };
  readonly missing: readonly string[];
  readonly logprobs: readonly (readonly number[])[];
  readonly encoded: readonly (readonly number[])[];
  readonly decoded: readonly string[];
  readonly chats: readonly { readonly prompt_ids: number[]; readonly ids: number[]; readonly mask: number[] }[];
  readonly special: readonly (number | null)[];
};

const TOLERANCE = 1e-4;

const words = 'zero one two three four five six seven eight nine plus minus is user assistant system'.split(' ');
const special = ['<pad>', '<bos>', '<start>', '<end>'];
// transformers finds a generation block by its first character, which must belong to a token: no space after the tag.
const template = `{{ bos_token }}{% for message in messages %} <start> {{ message.role }}{% if message.role == 'assistant' %} {% generation %}{{ message.content }} <end>{% endgeneration %}{% else %} {{ message.content }} <end>{% endif %}{% endfor %}{% if add_generation_prompt %} <start> assistant{% endif %}`;

const base: ModelConfig = {
  model_type: 'llama',
  hidden_size: 48,
  intermediate_size: 96,
  num_hidden_layers: 3,
  num_attention_heads: 4,
  num_key_value_heads: 4,
  vocab_size: words.length + special.length,
  max_position_embeddings: 96,
  rms_norm_eps: 1e-5,
  rope_theta: 10000,
  tie_word_embeddings: false,
  bos_token_id: 1,
  eos_token_id: 3,
  pad_token_id: 0,
};

/** Models that differ in what a loader can get wrong: tied output, grouped keys, another rotary base, spare vocabulary. */
const models: Readonly<Record<string, ModelConfig>> = {
  plain: base,
  tied: { ...base, tie_word_embeddings: true, rms_norm_eps: 1e-6 },
  grouped: { ...base, num_key_value_heads: 2, rope_theta: 500000, vocab_size: 32 },
};

export const proof = {
  name: 'checkpoint-loads',
  needs: ['python'],
  async run(setting: Setting): Promise<{ ok: boolean; lines: string[] }> {
    const lines: string[] = [];
    let ok = true;
    for (const [name, config] of Object.entries(models)) {
      const { lines: said, ok: fine } = await checkModel(name, config, setting);
      for (const line of said) setting.say(line);
      lines.push(...said);
      ok &&= fine;
    }
    return { ok, lines };
  },
};

async function checkModel(
  name: string,
  config: ModelConfig,
  { short, python, scratch }: Setting,
): Promise<{ ok: boolean; lines: string[] }> {
  const dir = join(scratch, name);
  const copy = join(scratch, `${name}-by-transformers`);
  const tokenizer = wordTokenizer(words, special, { bos: '<bos>', eos: '<end>', pad: '<pad>' });
  // Norms of 1 would hide a loader that leaves them at their default.
  const weights = moved(initialWeights(config, 7));
  await newModelDirectory(dir, { config, weights, tokenizer, chatTemplate: template, seed: 7 });
  const model = await openModel(dir);

  const { texts, conversations, rows } = questions(model, short ? 20 : 400);
  const asked = {
    texts,
    conversations,
    rows: rows.map((row) => ({ prompt_ids: row.promptIds, completion_ids: row.tokenIds })),
  };
  const theirs = await askPython<Answers>(python, 'checkpoint_loads_in_transformers.py', [dir, copy], asked);
  const ours = await score(model, rows);
  const again = await openModel(copy);
  const oursAgain = await score(again, rows);

  const { tokenizer: words_, template: chat } = model;
  const chats = conversations.map((messages) => {
    const { ids, lossMask } = chat!.maskedIds(messages);
    return { prompt_ids: chat!.promptIds(messages.slice(0, -1)), ids, mask: [...lossMask] };
  });
  const far = distance(ours, theirs.logprobs);
  const farAgain = distance(oursAgain, theirs.logprobs);
  const checks: [string, boolean][] = [
    [`no weight missing or unexpected (${theirs.missing.join(', ') || 'none'})`, theirs.missing.length === 0],
    [`${texts.length} texts, same ids`, same(texts.map(words_.encode), theirs.encoded)],
    [`${texts.length} lists of ids, same text`, same(theirs.encoded.map(words_.decode), theirs.decoded)],
    [`${chats.length} chats, same prompt, ids and mask`, same(chats, theirs.chats)],
    ['same special tokens', same([words_.bos, words_.eos, words_.pad], theirs.special)],
    [`log-probabilities of ${rows.length} rows within ${far.toExponential(1)}`, far < TOLERANCE],
    [`those of what transformers saved within ${farAgain.toExponential(1)}`, farAgain < TOLERANCE],
  ];
  const { torch, transformers } = theirs.versions;
  return {
    ok: checks.every(([, fine]) => fine),
    lines: checks.map(
      ([what, fine]) => `${fine ? 'ok' : 'NOT OK'}  ${name}: ${what}  (transformers ${transformers}, torch ${torch})`,
    ),
  };
}

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

const moved = (weights: Weights): Weights => {
  const { uniform } = randomStream(11);
  return new Map(
    [...weights].map(([name, { shape, data }]) => [
      name,
      { shape, data: shape.length === 1 ? data.map((x) => x * (0.5 + uniform())) : data },
    ]),
  );
};

/** Texts, chats and scored rows drawn from a seed. */
function questions(
  { config }: OpenModel,
  count: number,
): { texts: string[]; conversations: ChatMessage[][]; rows: ScoreRow[] } {
  const { uniform } = randomStream(3);
  const below = (n: number): number => Math.floor(uniform() * n);
  const some = <T>(n: number, draw: () => T): T[] => Array.from({ length: n }, draw);
  const phrase = (): string => some(1 + below(6), () => words[below(words.length)]).join(' ');
  const ids = (n: number): number[] => some(n, () => below(config.vocab_size));
  return {
    texts: some(count, () => some(1 + below(8), () => [...special, ...words][below(base.vocab_size)]).join(' ')),
    conversations: some(count, () => [
      { role: 'system', content: phrase() },
      ...some(below(3), () => [
        { role: 'user', content: phrase() },
        { role: 'assistant', content: phrase() },
      ]).flat(),
      { role: 'user', content: phrase() },
      { role: 'assistant', content: phrase() },
    ]),
    rows: some(count, () => ({ promptIds: ids(1 + below(40)), tokenIds: ids(1 + below(50)) })),
  };
}

async function score({ config, weights }: OpenModel, rows: readonly ScoreRow[]): Promise<number[][]> {
  const policy = await Policy.load(config, weights, { threads: 1 });
  try {
    return await policy.logprobs(rows);
  } finally {
    await policy.close();
  }
}

/** Greatest difference of two lists of rows; infinite where their lengths differ or a value is not a number. */
function distance(a: readonly (readonly number[])[], b: readonly (readonly number[])[]): number {
  const x = a.flat();
  const y = b.flat();
  if (
    !same(
      a.map((row) => row.length),
      b.map((row) => row.length),
    )
  )
    return Infinity;
  return x.reduce((most, value, i) => {
    const by = Math.abs(value - y[i]!);
    return Number.isNaN(by) ? Infinity : Math.max(most, by);
  }, 0);
}
