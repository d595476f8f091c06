/** Models as directories: a new small one, and what a directory holds. */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { EXIT, got, TroupeError } from '../../errors.ts';
import type { ModelConfig } from '../../trainer/weights.ts';
import { plainCommand, wholeNumber } from '../command.ts';
import { VERSION } from '../context.ts';
import { print, printJson, table } from '../output.ts';

const SPECIAL = { pad: '<pad>', eos: '<end>' };
/** Contents joined by single spaces; what the model itself said ends with the end token. */
const TEMPLATE = `{% for message in messages %}{% if not loop.first %}{{ ' ' }}{% endif %}{{ message.content }}{% if message.role == 'assistant' %}{{ ' ${SPECIAL.eos}' }}{% endif %}{% endfor %}`;

/** What a new model is where nobody says otherwise: half a million parameters, trained on one processor core. */
const DEFAULTS = {
  hidden_size: 128,
  intermediate_size: 344,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 4,
  max_position_embeddings: 256,
  rms_norm_eps: 1e-6,
  rope_theta: 10_000,
} as const;

type Asked = {
  readonly words: readonly string[];
  readonly config: Readonly<Record<string, number>>;
  readonly chatTemplate: string | null;
};

export function modelCommands(program: Command): void {
  const model = program.command('model').description('models as directories: new, info');
  plainCommand(
    model
      .command('new')
      .description('write a new small decoder with random weights and a tokenizer of whole words')
      .requiredOption('--dir <dir>', 'directory to write; nothing may be there')
      .option('--words <file>', 'text file whose distinct words, cut at white space, are the vocabulary')
      .option('--config <file>', `JSON: {"words": […], "chat_template": "…", ${Object.keys(DEFAULTS).join(', ')}}`)
      .option('--seed <n>', 'seed of the weights', wholeNumber('seed'), 0)
      .addHelpText(
        'after',
        `\nAlways in the vocabulary: ${SPECIAL.pad} and ${SPECIAL.eos}. Of --config only "words" is needed, and not even that beside --words.\n\nExamples:\n  troupe model new --dir ./model --words words.txt\n  troupe model new --dir ./model --config model.json --seed 1`,
      ),
    async (_, flags) => {
      const asked = await askedFor(flags);
      const [{ newModelDirectory }, { wordTokenizer }] = await Promise.all([
        import('../../trainer/model-directory.ts'),
        import('../../trainer/tokenizer.ts'),
      ]);
      const special = [SPECIAL.pad, SPECIAL.eos];
      const config: ModelConfig = {
        ...DEFAULTS,
        ...asked.config,
        model_type: 'llama',
        vocab_size: special.length + asked.words.length,
        tie_word_embeddings: true,
        bos_token_id: null,
        pad_token_id: 0,
        eos_token_id: 1,
      };
      const saved = await newModelDirectory(resolve(String(flags.dir)), {
        config,
        tokenizer: wordTokenizer(asked.words, special, SPECIAL),
        chatTemplate: asked.chatTemplate,
        seed: Number(flags.seed),
        codeVersion: VERSION,
      });
      if (flags.json) printJson({ checkpoint_id: saved.id, directory: saved.dir, vocab_size: config.vocab_size });
      else print(`Model ${saved.id} with ${config.vocab_size} words written to ${saved.dir}`);
      return EXIT.done;
    },
  );

  plainCommand(
    model
      .command('info')
      .description('what a model directory holds: family, size, tokenizer, lineage; hashes are verified')
      .argument('<dir>', 'directory of a checkpoint, or of any model in the Hugging Face layout')
      .addHelpText('after', '\nExample:\n  troupe model info ./model --json'),
    async ([dir], flags) => {
      const { openModel } = await import('../../trainer/model-directory.ts');
      const { id, config, weights, tokenizer, template, eosIds, meta } = await openModel(resolve(dir!));
      const parameters = [...weights.values()].reduce((sum, { data }) => sum + data.length, 0);
      const info = {
        checkpoint_id: id,
        directory: resolve(dir!),
        parameters,
        config,
        tokenizer: { vocab_size: tokenizer.vocabSize, bos: tokenizer.bos, eos: tokenizer.eos, pad: tokenizer.pad },
        eos_ids: eosIds,
        chat_template: template !== null,
        meta,
      };
      if (flags.json) printJson(info);
      else
        print(
          table(
            ['what', 'value'],
            [
              ['checkpoint', id],
              ['parameters', parameters.toLocaleString('en')],
              ['family', config.model_type],
              ['layers × width', `${config.num_hidden_layers} × ${config.hidden_size}`],
              ['context', config.max_position_embeddings],
              ['vocabulary', tokenizer.vocabSize],
              ['ends a reply', eosIds.map((one) => tokenizer.token(one) ?? one).join(' ')],
              ['chat template', template === null ? 'none' : 'yes'],
            ],
          ),
        );
      return EXIT.done;
    },
  );
}

async function askedFor(flags: Readonly<Record<string, unknown>>): Promise<Asked> {
  if (flags.words === undefined && flags.config === undefined) {
    throw new TroupeError('usage', 'Which words shall the model know? Say --words FILE or --config FILE.');
  }
  const given = flags.config === undefined ? {} : configOf(String(flags.config), await read(String(flags.config)));
  const { words: listed, chat_template: template, ...config } = given;
  const words = flags.words === undefined ? listed : (await read(String(flags.words))).split(/\s+/).filter(Boolean);
  if (!Array.isArray(words) || words.length === 0 || !words.every((word) => typeof word === 'string')) {
    throw new TroupeError('usage', `A model needs words: a list of texts, not ${got(words)}.`, { field: 'words' });
  }
  if (template !== undefined && template !== null && typeof template !== 'string')
    throw new TroupeError('usage', `chat_template should be text or null, but it is ${got(template)}.`);
  for (const [name, value] of Object.entries(config)) {
    if (!Object.hasOwn(DEFAULTS, name) || typeof value !== 'number' || !(value > 0)) {
      throw new TroupeError(
        'usage',
        `${got(name)}: ${got(value)} is no setting of a new model; expected positive numbers for ${Object.keys(DEFAULTS).join(', ')}.`,
        { field: name },
      );
    }
  }
  return {
    words: [...new Set(words as string[])].filter((word) => word !== SPECIAL.pad && word !== SPECIAL.eos),
    config: config as Record<string, number>,
    chatTemplate: template === undefined ? TEMPLATE : (template as string | null),
  };
}

function configOf(file: string, text: string): Record<string, unknown> {
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
    throw new TroupeError('not_found', `${file} cannot be read: ${(cause as Error).message}.`, { cause });
  });
