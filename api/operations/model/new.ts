/** A small decoder with random weights, and a tokenizer of whole words or one trained on text. */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { TroupeError, unreadable } from '../../../errors.ts';
import { countParameters, estimateTrainingMemory } from '../../../trainer/learn/memory.ts';
import { newModelDirectory } from '../../../trainer/model/model-directory.ts';
import { initialWeights, withScoreHead } from '../../../trainer/model/parameters.ts';
import { CHATML_ROLES, CHATML_SPECIAL, CHATML_TEMPLATE } from '../../../trainer/model/tokens/chatml.ts';
import { chatTemplate } from '../../../trainer/model/tokens/template.ts';
import { openTokenizer, wordTokenizer } from '../../../trainer/model/tokens/tokenizer.ts';
import { trainBpe } from '../../../trainer/model/tokens/tokenizer-training.ts';
import type { ReadContext } from '../operation.ts';
import { type Sizes, sizesOf } from './sizes.ts';
import { trainingText } from './training-text.ts';

const WORD_SPECIAL = { pad: '<pad>', eos: '<end>' };
/** Contents joined by single spaces; each assistant message ends with the end token. */
const WORD_TEMPLATE = `{% for message in messages %}{% if not loop.first %}{{ ' ' }}{% endif %}{{ message.content }}{% if message.role == 'assistant' %}{{ ' ${WORD_SPECIAL.eos}' }}{% endif %}{% endfor %}`;

type NewModel = Parameters<typeof sizesOf>[1] & {
  readonly dir: string;
  readonly words?: string;
  readonly text?: readonly string[];
  readonly vocab: number;
  readonly min_frequency: number;
  readonly config?: Sizes & { readonly words?: readonly string[]; readonly chat_template?: string | null };
  readonly value_head: boolean;
  readonly seed: number;
};

export async function newModel({ version, progress }: ReadContext, asked: NewModel) {
  const { words: _, chat_template: __, ...sizes } = asked.config ?? {};
  const side = asked.text === undefined ? await wordSide(asked) : trainedSide(asked, asked.text, progress);
  const config = {
    ...sizesOf(sizes, asked, { context: asked.text === undefined ? 256 : 1024 }),
    vocab_size: side.tokens,
    bos_token_id: null,
    pad_token_id: side.padId,
    eos_token_id: side.eosId,
  };
  const { total } = estimateTrainingMemory(config, {
    tokensPerStep: 4096,
    longest: Math.min(512, config.max_position_embeddings),
  });
  const saved = await newModelDirectory(resolve(asked.dir), {
    ...(asked.value_head ? withScoreHead(config, initialWeights(config, asked.seed), 'value') : { config }),
    tokenizer: side.tokenizer,
    chatTemplate: side.chatTemplate,
    seed: asked.seed,
    codeVersion: version,
  });
  return {
    checkpoint_id: saved.id,
    directory: saved.dir,
    vocab_size: config.vocab_size,
    parameters: countParameters(config),
    training_bytes: total,
    ...(side.learned === null ? {} : { texts: side.learned.files, errors: side.learned.refused }),
  };
}

async function wordSide({ words: file, config }: NewModel) {
  if (file === undefined && config === undefined)
    throw new TroupeError(
      'usage',
      'Missing --text FILE to train a tokenizer, or --words FILE or --config FILE for a vocabulary of whole words.',
    );
  const words = file === undefined ? (config?.words ?? []) : (await read(file)).split(/\s+/).filter(Boolean);
  if (words.length === 0)
    throw new TroupeError('usage', 'A model needs words, and there are none.', {
      field: 'words',
      hint: 'Or train a tokenizer on text: --text FILE.',
    });
  const special = [WORD_SPECIAL.pad, WORD_SPECIAL.eos];
  const kept = [...new Set(words)].filter((word) => !special.includes(word));
  return {
    tokenizer: wordTokenizer(kept, special, WORD_SPECIAL),
    chatTemplate: config?.chat_template === undefined ? WORD_TEMPLATE : config.chat_template,
    tokens: special.length + kept.length,
    padId: 0,
    eosId: 1,
    learned: null,
  };
}

function trainedSide(
  { words, config, vocab, min_frequency }: NewModel,
  paths: readonly string[],
  progress: ReadContext['progress'],
) {
  if (words !== undefined || config?.words !== undefined)
    throw new TroupeError('usage', 'A tokenizer is either trained (--text) or a list of words; pass only one.');
  const [special, roles] = [CHATML_SPECIAL, CHATML_ROLES];
  const source = config?.chat_template === undefined ? CHATML_TEMPLATE : config.chat_template;
  const bare = openTokenizer(trainBpe([], { vocabSize: 256 + special.length, special, roles }));
  // Conversations are counted as the chat template renders them, or without a template as the contents of their messages.
  const chat = chatTemplate(source ?? '{% for message in messages %}{{ message.content }}\n{% endfor %}', bare);
  const text = trainingText(
    paths.map((file) => resolve(file)),
    {
      render: (messages, tools) => chat.render(messages, tools === undefined ? {} : { tools }),
      onRead: (done, total) => total > LONG_BYTES && progress(done, total, 'read'),
    },
  );
  const bytes = () => text.files.reduce((sum, file) => sum + file.bytes, 0);
  let length = 0;
  function* counted(): Generator<string> {
    for (const one of text.texts) {
      length += one.length;
      yield one;
    }
  }
  const tokenizer = trainBpe(counted(), {
    vocabSize: vocab,
    special,
    roles,
    minFrequency: min_frequency,
    onMerge: (done, total) => {
      if (bytes() > LONG_BYTES && (done % 64 === 0 || done === total)) progress(done, total, 'merged');
    },
  });
  if (length === 0) {
    const [first] = text.refused;
    const why = first ? ` that can be read: line ${first.line} of ${first.file} is ${first.got}` : '';
    throw new TroupeError('usage', `There is no text in the files of --text${why}.`, {
      expected: first?.expected ?? 'text to learn tokens from',
    });
  }
  const { vocabSize, pad, eos } = openTokenizer(tokenizer);
  return { tokenizer, chatTemplate: source, tokens: vocabSize, padId: pad!, eosId: eos!, learned: text };
}

/** Shorter texts are done before anybody could look at a bar. */
const LONG_BYTES = 4 << 20;

const read = (file: string): Promise<string> =>
  readFile(file, 'utf8').catch((cause) => {
    throw unreadable(file, cause);
  });
