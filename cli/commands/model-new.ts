/** `troupe model new`: a small decoder with random weights, and a tokenizer of whole words or one trained on text. */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { type Command, InvalidArgumentError } from 'commander';
import { bytesText } from '../../api/operations/bytes.ts';
import { EXIT, got, TroupeError, unreadable } from '../../errors.ts';
import type { NewModel } from '../../trainer/model/model-directory.ts';
import type { TokenizerFiles } from '../../trainer/model/tokens/tokenizer.ts';
import type { ModelConfig } from '../../trainer/model/weights.ts';
import { type Flags, plainCommand, wholeNumber } from '../command.ts';
import { print, printJson, progressBar, say } from '../output.ts';
import { type RefusedLine, type TextFile, trainingText } from '../training/training-text.ts';
import { VERSION } from '../version.ts';
import { readSizes, SIZE_NAMES, type Sizes, sizesOf } from './model-sizes.ts';

const WORD_SPECIAL = { pad: '<pad>', eos: '<end>' };
/** Contents joined by single spaces; each assistant message ends with the end token. */
const WORD_TEMPLATE = `{% for message in messages %}{% if not loop.first %}{{ ' ' }}{% endif %}{{ message.content }}{% if message.role == 'assistant' %}{{ ' ${WORD_SPECIAL.eos}' }}{% endif %}{% endfor %}`;

/** What a model is made from: its text side, and what was found while that was made. */
type TextSide = {
  readonly tokenizer: TokenizerFiles;
  readonly chatTemplate: string | null;
  readonly tokens: number;
  readonly padId: number;
  readonly eosId: number;
  readonly files: readonly TextFile[];
  readonly refused: readonly RefusedLine[];
};

/** The document of --config: words, a chat template and sizes, all optional. */
type Document = { readonly words: unknown; readonly chatTemplate: string | null | undefined; readonly sizes: Sizes };

export function modelNewCommand(model: Command): void {
  const whole = (name: string) => (text: string) => {
    const value = wholeNumber(name)(text);
    if (value > 0) return value;
    throw new InvalidArgumentError(`--${name} should be a whole number above 0.`);
  };
  plainCommand(
    model
      .command('new')
      .description('write a new small decoder with random weights and a tokenizer of its own')
      .requiredOption('--dir <dir>', 'directory to write; must not exist or be empty')
      .option('--words <file>', 'text file whose distinct words, split at white space, are the vocabulary')
      .option(
        '--text <files...>',
        'train a tokenizer on these: plain text, or chats with {"messages": […]} on each line',
      )
      .option('--vocab <n>', 'maximum vocabulary size of a trained tokenizer', whole('vocab'), 4096)
      .option('--min-frequency <n>', 'minimum count of a pair that becomes a token', whole('min-frequency'), 2)
      .option('--config <file>', `JSON: {"words": […], "chat_template": "…", ${SIZE_NAMES.join(', ')}}`)
      .option('--family <name>', 'llama, qwen2 or qwen3 (default: llama)')
      .option('--hidden <n>', 'width of the residual stream (default: 128)', whole('hidden'))
      .option('--layers <n>', 'layers (default: 2)', whole('layers'))
      .option('--heads <n>', 'attention heads (default: width / 32, from width 512 on width / 64)', whole('heads'))
      .option('--kv-heads <n>', 'key-value heads (default: the number of heads)', whole('kv-heads'))
      .option('--head-dim <n>', 'width of one head (default: width / heads)', whole('head-dim'))
      .option('--ff <n>', 'width of the feed-forward layer (default: 8/3 of the width)', whole('ff'))
      .option('--context <n>', 'context length in tokens (default: 256; with --text 1024)', whole('context'))
      .option('--untied', 'use an output matrix separate from the embeddings')
      .option('--value-head', 'a head that gives one number, at first 0, in place of one that writes tokens')
      .option('--seed <n>', 'random seed of the weights', wholeNumber('seed'), 0)
      .addHelpText(
        'after',
        `
A vocabulary of words always has ${WORD_SPECIAL.pad} and ${WORD_SPECIAL.eos}. A trained one can write any text; it has <|endoftext|>,
<|im_start|> and <|im_end|>, and a chat template for turns and calls of tools. Flags count over --config. Lines of a chat
file that cannot be read are left out and listed, and the command then ends with 3.

Examples:
  troupe model new --dir ./model --words words.txt
  troupe model new --dir ./model --config model.json --seed 1
  troupe model new --dir ./judge --config model.json --value-head
  troupe model new --dir ./model --text corpus.txt --vocab 8192 --hidden 256 --layers 4
  troupe model new --dir ./model --text chats/*.jsonl --family qwen3 --hidden 512 --layers 8 --kv-heads 4`,
      ),
    async (_, flags) => {
      const document = await documentOf(flags);
      const text = flags.text === undefined ? await wordSide(flags, document) : await trainedSide(flags, document);
      const [{ newModelDirectory }, { initialWeights, withScoreHead }, { countParameters, estimateTrainingMemory }] =
        await Promise.all([
          import('../../trainer/model/model-directory.ts'),
          import('../../trainer/model/parameters.ts'),
          import('../../trainer/learn/memory.ts'),
        ]);
      const config: ModelConfig = {
        ...sizesOf(document.sizes, flags, { context: flags.text === undefined ? 256 : 1024 }),
        vocab_size: text.tokens,
        bos_token_id: null,
        pad_token_id: text.padId,
        eos_token_id: text.eosId,
      };
      const parameters = countParameters(config);
      const { total } = estimateTrainingMemory(config, {
        tokensPerStep: 4096,
        longest: Math.min(512, config.max_position_embeddings),
      });
      const valued = (): Pick<NewModel, 'config' | 'weights'> =>
        withScoreHead(config, initialWeights(config, Number(flags.seed)), 'value');
      const saved = await newModelDirectory(resolve(String(flags.dir)), {
        ...(flags.valueHead ? valued() : { config }),
        tokenizer: text.tokenizer,
        chatTemplate: text.chatTemplate,
        seed: Number(flags.seed),
        codeVersion: VERSION,
      });
      for (const { file, line, expected, got: found } of text.refused.slice(0, MOST_LISTED))
        say(`${file}:${line}: left out; expected ${expected}, got ${found}`);
      if (text.refused.length > MOST_LISTED) say(`… and ${text.refused.length - MOST_LISTED} more lines`);
      if (flags.json) {
        printJson({
          checkpoint_id: saved.id,
          directory: saved.dir,
          vocab_size: config.vocab_size,
          parameters,
          training_bytes: total,
          ...(text.files.length === 0 ? {} : { texts: text.files, errors: text.refused }),
        });
      } else {
        const what = flags.text === undefined ? 'words' : 'tokens';
        print(`Model ${saved.id} with ${config.vocab_size} ${what} written to ${saved.dir}`);
        print(
          `${parameters.toLocaleString('en')} parameters; training all of them takes about ${bytesText(total)} of memory`,
        );
      }
      return text.refused.length > 0 ? EXIT.refused : EXIT.done;
    },
  );
}

async function wordSide(flags: Flags, { words: listed, chatTemplate }: Document): Promise<TextSide> {
  if (flags.words === undefined && flags.config === undefined) {
    throw new TroupeError(
      'usage',
      'Missing --text FILE to train a tokenizer, or --words FILE or --config FILE for a vocabulary of whole words.',
    );
  }
  const words = flags.words === undefined ? listed : (await read(String(flags.words))).split(/\s+/).filter(Boolean);
  if (!Array.isArray(words) || words.length === 0 || !words.every((word) => typeof word === 'string')) {
    throw new TroupeError('usage', `A model needs words: a list of texts, not ${got(words)}.`, {
      field: 'words',
      hint: 'Or train a tokenizer on text: --text FILE.',
    });
  }
  const { wordTokenizer } = await import('../../trainer/model/tokens/tokenizer.ts');
  const special = [WORD_SPECIAL.pad, WORD_SPECIAL.eos];
  const kept = [...new Set(words as string[])].filter((word) => !special.includes(word));
  return {
    tokenizer: wordTokenizer(kept, special, WORD_SPECIAL),
    chatTemplate: chatTemplate === undefined ? WORD_TEMPLATE : chatTemplate,
    tokens: special.length + kept.length,
    padId: 0,
    eosId: 1,
    files: [],
    refused: [],
  };
}

async function trainedSide(flags: Flags, { words, chatTemplate }: Document): Promise<TextSide> {
  if (flags.words !== undefined || words !== undefined)
    throw new TroupeError('usage', 'A tokenizer is either trained (--text) or a list of words; pass only one.');
  const [{ trainBpe }, { openTokenizer }, template, chatml] = await Promise.all([
    import('../../trainer/model/tokens/tokenizer-training.ts'),
    import('../../trainer/model/tokens/tokenizer.ts'),
    import('../../trainer/model/tokens/template.ts'),
    import('../../trainer/model/tokens/chatml.ts'),
  ]);
  const { CHATML_SPECIAL: special, CHATML_ROLES: roles, CHATML_TEMPLATE } = chatml;
  const source = chatTemplate === undefined ? CHATML_TEMPLATE : chatTemplate;
  const bare = openTokenizer(trainBpe([], { vocabSize: 256 + special.length, special, roles }));
  // Conversations are counted as the chat template renders them, or without a template as the contents of their messages.
  const chat = template.chatTemplate(
    source ?? '{% for message in messages %}{{ message.content }}\n{% endfor %}',
    bare,
  );
  const quiet = flags.quiet === true;
  const reading = progressBar('text', { quiet });
  const text = trainingText(
    (flags.text as readonly string[]).map((file) => resolve(file)),
    {
      render: (messages, tools) => chat.render(messages, tools === undefined ? {} : { tools }),
      onRead: (done, total) => total > LONG_BYTES && reading.update(done, total),
    },
  );
  const merging = progressBar('tokens', { quiet });
  const bytes = () => text.files.reduce((sum, file) => sum + file.bytes, 0);
  let read = 0;
  function* counted(): Generator<string> {
    for (const one of text.texts) {
      read += one.length;
      yield one;
    }
  }
  try {
    const tokenizer = trainBpe(counted(), {
      vocabSize: Number(flags.vocab),
      special,
      roles,
      minFrequency: Number(flags.minFrequency),
      onMerge: (done, total) => {
        if (done === 1) reading.stop();
        if (bytes() > LONG_BYTES && (done % 64 === 0 || done === total)) merging.update(done, total);
      },
    });
    if (read === 0) {
      const [first] = text.refused;
      const why = first ? ` that can be read: line ${first.line} of ${first.file} is ${first.got}` : '';
      throw new TroupeError('usage', `There is no text in the files of --text${why}.`, {
        expected: first?.expected ?? 'text to learn tokens from',
      });
    }
    const { vocabSize, pad, eos } = openTokenizer(tokenizer);
    const { files, refused } = text;
    return { tokenizer, chatTemplate: source, tokens: vocabSize, padId: pad!, eosId: eos!, files, refused };
  } finally {
    reading.stop();
    merging.stop();
  }
}

/** Refused lines that a person is shown; --json has all of them. */
const MOST_LISTED = 20;

/** Shorter texts are done before anybody could look at a bar. */
const LONG_BYTES = 4 << 20;

async function documentOf(flags: Flags): Promise<Document> {
  if (flags.config === undefined) return { words: undefined, chatTemplate: undefined, sizes: {} };
  const file = String(flags.config);
  const { words, chat_template: template, ...sizes } = objectOf(file, await read(file));
  if (template !== undefined && template !== null && typeof template !== 'string')
    throw new TroupeError('usage', `chat_template should be text or null, but it is ${got(template)}.`);
  return { words, chatTemplate: template, sizes: readSizes(sizes) };
}

function objectOf(file: string, text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new TroupeError('usage', `${file} is not JSON: ${(cause as Error).message}.`, { cause });
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new TroupeError('usage', `${file} should hold an object, but it holds ${got(value)}.`);
}

const read = (file: string): Promise<string> =>
  readFile(file, 'utf8').catch((cause) => {
    throw unreadable(file, cause);
  });
