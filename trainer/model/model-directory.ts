/**
 * A model as one directory: weights, configuration, tokenizer and chat template, opened together. It may be a checkpoint
 * of Troupe, whose hashes are then verified, or any directory in the Hugging Face layout that holds safetensors.
 */
import { got, TroupeError } from '../../errors.ts';
import {
  latestCheckpoint,
  listFiles,
  loadCheckpoint,
  type SavedCheckpoint,
  saveCheckpointAt,
} from './checkpoints/checkpoint.ts';
import {
  type CheckpointContents,
  emptyMeta,
  identityOf,
  MANIFEST,
  SIDE_FILES,
  type SideFiles,
} from './checkpoints/checkpoint-format.ts';
import type { PublishOptions } from './files/atomic.ts';
import { readModelConfig } from './model-config.ts';
import { readModelFiles } from './model-files.ts';
import { initialWeights, parameterShapes, withScoreHead } from './parameters.ts';
import { type ChatTemplate, chatTemplate, templateSource } from './tokens/template.ts';
import { noTokenizer, openTokenizer, type Tokenizer, type TokenizerFiles } from './tokens/tokenizer.ts';
import type { ModelConfig, Tensor, Weights } from './weights.ts';

/** A language model: what `infer`, training and evaluation start from. */
export type OpenModel = CheckpointContents & {
  /** The checkpoint's id; of a directory that is none, an id made of its files in the same way. */
  readonly id: string;
  readonly dir: string;
  readonly tokenizer: Tokenizer;
  /** Null where the model has no chat template: it then continues text and ids only. */
  readonly template: ChatTemplate | null;
  /**
   * Ids that end a reply: first the one that its end is learnt by, which is the token that the chat template ends a turn with, or without a
   * template that of the tokenizer; then those of config.json and generation_config.json.
   */
  readonly eosIds: readonly number[];
};

/**
 * Opens a model directory, or the latest checkpoint of a folder of checkpoints. Throws `not_found`, `checkpoint_damaged` (a hash or a safetensors file is wrong) or
 * `model_unsupported` (another family, a dtype that is not read, pickled weights, no tokenizer). Tokenizer and template
 * of `before` are taken over where the text files are the same: parsing a large vocabulary costs more than the weights.
 */
export async function openModel(dir: string, before?: Before): Promise<OpenModel> {
  const model = await openModelForIds(dir, before);
  if (model.sideFiles['tokenizer.json'] === undefined) model.tokenizer.encode('');
  return model;
}

type Before = Pick<OpenModel, 'sideFiles' | 'tokenizer' | 'template'>;

/** As `openModel`, for work on rows of token ids: a directory without tokenizer opens, and its tokenizer refuses text. */
export async function openModelForIds(given: string, before?: Before): Promise<OpenModel> {
  const dir = (await latestCheckpoint(given)) ?? given;
  const names = await listFiles(dir);
  const { id, ...contents } = names.includes(MANIFEST) ? await openCheckpoint(dir) : await readPlain(dir);
  const { sideFiles, config } = contents;
  const json = (name: keyof SideFiles): Record<string, unknown> => parse(name, sideFiles[name] ?? '{}');
  const tokenizerConfig = json('tokenizer_config.json');
  const kept = before && JSON.stringify(before.sideFiles) === JSON.stringify(sideFiles) ? before : null;
  const tokenizer =
    sideFiles['tokenizer.json'] === undefined
      ? noTokenizer(dir)
      : (kept?.tokenizer ?? openTokenizer({ tokenizer: json('tokenizer.json'), config: tokenizerConfig }));
  if (tokenizer.vocabSize > config.vocab_size) {
    const sizes = `${tokenizer.vocabSize} tokens, the model ${config.vocab_size}`;
    throw new TroupeError('model_unsupported', `The tokenizer of ${dir} has ${sizes}; they do not belong together.`);
  }
  const source = templateSource(sideFiles['chat_template.jinja'] ?? null, tokenizerConfig);
  const generation = json('generation_config.json').eos_token_id;
  const template = kept
    ? kept.template
    : source === null || tokenizer.vocabSize === 0
      ? null
      : chatTemplate(source, tokenizer);
  const ends = [template?.turnEnd, tokenizer.eos, config.eos_token_id, generation].flat();
  const eosIds = ends.filter((id) => Number.isSafeInteger(id));
  return {
    ...contents,
    weights: fitted(config, contents.weights),
    id,
    dir,
    tokenizer,
    template,
    eosIds: [...new Set(eosIds as number[])],
  };
}

/**
 * As `openModelForIds`, a model that gives values: its own head, or in place of a language model's a new one, which outputs 0.
 * @throws TroupeError `model_unsupported` for a reward head
 */
export async function openValueModel(dir: string): Promise<OpenModel> {
  const open = await openModelForIds(dir);
  const { head = 'lm' } = open.config;
  if (head === 'value') return open;
  if (head === 'lm') return { ...open, ...withScoreHead(open.config, open.weights, 'value'), optimizer: null };
  throw new TroupeError(
    'model_unsupported',
    `Values are given by a language model or a value head; ${dir} has a ${head} head.`,
  );
}

/** A checkpoint's contents and id, without what else is known of its files. */
async function openCheckpoint(dir: string): Promise<CheckpointContents & { readonly id: string }> {
  const { sha256: _, files: __, bytes: ___, ...contents } = await loadCheckpoint(dir);
  return contents;
}

/** A directory that vouches for nothing: its id follows from its files as a checkpoint's does from its own. */
async function readPlain(dir: string): Promise<CheckpointContents & { readonly id: string }> {
  const { texts, weights, facts } = await readModelFiles(dir);
  const utf8 = (bytes: Uint8Array): string => new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
  const side = SIDE_FILES.filter((name) => texts.has(name)).map((name) => [name, utf8(texts.get(name)!)]);
  return {
    config: readModelConfig(parse('config.json', utf8(texts.get('config.json')!))),
    weights,
    sideFiles: Object.fromEntries(side),
    optimizer: null,
    state: null,
    meta: emptyMeta,
    id: identityOf(facts, emptyMeta).id,
  };
}

/** Not parameters: a table that follows from the configuration, and the output matrix of a model that ties it. */
const isSpare = (name: string, { tie_word_embeddings: tied }: ModelConfig): boolean =>
  name.endsWith('.rotary_emb.inv_freq') || (tied && name === 'lm_head.weight');

/** The weights a configuration asks for, in the order of the model's definition; one too few, too many or misshapen is refused. */
function fitted(config: ModelConfig, weights: Weights): Weights {
  const ordered = new Map<string, Tensor>();
  for (const [name, shape] of parameterShapes(config)) {
    const tensor = weights.get(name);
    const found = tensor ? `[${tensor.shape}]` : 'missing';
    if (!tensor || found !== `[${shape}]`)
      throw misfit(`${name} must be [${shape}] by its config.json, it is ${found}`);
    ordered.set(name, tensor);
  }
  const extra = [...weights.keys()].find((name) => !ordered.has(name) && !isSpare(name, config));
  if (extra !== undefined) throw misfit(`${got(extra)} has no place in the model its config.json describes`);
  return ordered;
}

const misfit = (what: string): TroupeError =>
  new TroupeError('model_unsupported', `The weights do not fit the configuration: ${what}.`, {
    hint: 'Check that config.json and model.safetensors come from the same model.',
  });

function parse(name: string, text: string): Record<string, unknown> {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new TroupeError('model_unsupported', `${name} is not JSON: ${(cause as Error).message}.`, { cause });
  }
}

export type NewModel = {
  readonly config: ModelConfig;
  /** Drawn from the seed if left out. */
  readonly weights?: Weights;
  readonly tokenizer: TokenizerFiles;
  /** Jinja source, or null for a model without turns. */
  readonly chatTemplate: string | null;
  readonly seed: number;
  readonly codeVersion?: string;
};

/** The text files of a model from its tokenizer, its chat template and the token ids its configuration names. */
export function sideFilesOf({
  config,
  tokenizer,
  chatTemplate: source,
}: Omit<NewModel, 'weights' | 'seed'>): SideFiles {
  const pretty = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;
  const { eos_token_id, bos_token_id, pad_token_id } = config;
  const named = Object.entries(tokenizer.config).filter(
    ([name, value]) => /^[a-z]+_token$/.test(name) && value !== null,
  );
  return {
    'generation_config.json': pretty({ bos_token_id, eos_token_id, pad_token_id, do_sample: true }),
    'tokenizer.json': pretty(tokenizer.tokenizer),
    'tokenizer_config.json': pretty({ ...tokenizer.config, ...(source === null ? {} : { chat_template: source }) }),
    'special_tokens_map.json': pretty(Object.fromEntries(named)),
  };
}

/**
 * Writes a new model at `dir` as a checkpoint without parent, at step 0. Its tokenizer and template are opened first,
 * so that an unusable model is not left behind. Throws `conflict` where something else is at `dir`,
 * `model_unsupported` for a tokenizer or template that cannot be read, `usage` for one that does not fit.
 */
export async function newModelDirectory(
  dir: string,
  model: NewModel,
  options: PublishOptions = {},
): Promise<SavedCheckpoint> {
  const { config, seed, codeVersion = null } = model;
  const weights = fitted(config, model.weights ?? initialWeights(config, seed));
  const tokenizer = openTokenizer(model.tokenizer);
  if (tokenizer.vocabSize > config.vocab_size) {
    throw new TroupeError('usage', `${tokenizer.vocabSize} tokens do not fit vocab_size ${config.vocab_size}.`);
  }
  if (model.chatTemplate !== null) chatTemplate(model.chatTemplate, tokenizer);
  return saveCheckpointAt(
    dir,
    {
      config,
      weights,
      sideFiles: sideFilesOf(model),
      optimizer: null,
      state: null,
      meta: { ...emptyMeta, seed, code_version: codeVersion },
    },
    options,
  );
}
