/** Models as directories: a new small one, what one holds, and copies of it in other shapes. */
import { Type } from 'typebox';
import { EXIT } from '../../errors.ts';
import { bytesOf, bytesText } from './bytes.ts';
import { defaulted, described, local, operation, written } from './operation.ts';

const folder = (description: string) => local(Type.String({ minLength: 1, description }), 'only', { value: 'dir' });
const out = folder('directory to write; must not exist or be empty');
const prints = () => import('./model/text.ts');
const text = Type.String();
const count = Type.Integer();
const json = Type.Object({}, { additionalProperties: true });
const size = Type.Optional(Type.Integer({ minimum: 1 }));
const family = Type.Optional(Type.Enum(['llama', 'qwen2', 'qwen3']));
const above = Type.Optional(Type.Number({ exclusiveMinimum: 0 }));

const Config = Type.Object(
  {
    words: Type.Optional(Type.Array(Type.String(), { minItems: 1 })),
    chat_template: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    ...{ model_type: family, hidden_size: size, intermediate_size: size, num_hidden_layers: size },
    ...{ num_attention_heads: size, num_key_value_heads: size, head_dim: size, max_position_embeddings: size },
    ...{ rms_norm_eps: above, rope_theta: above, tie_word_embeddings: Type.Optional(Type.Boolean()) },
  },
  { additionalProperties: false, description: 'words, chat template and sizes, in the words of config.json' },
);

const newModel = operation({
  name: 'model.new',
  about: 'write a new small decoder with random weights and a tokenizer of its own',
  notes:
    'A vocabulary of words always has <pad> and <end>. A trained one can write any text; it has <|endoftext|>, <|im_start|> and <|im_end|>, and a chat template for turns and calls of tools. Options count over --config. Lines of a chat file that cannot be read are left out and listed, and the command then ends with 3.',
  examples: [
    { dir: './model', words: 'words.txt' },
    { dir: './judge', config: { words: ['yes', 'no'], hidden_size: 64 }, value_head: true },
    { dir: './model', text: ['corpus.txt'], vocab: 8192, hidden: 256, layers: 4 },
    { dir: './model', text: ['chats.jsonl'], family: 'qwen3', hidden: 512, layers: 8, kv_heads: 4 },
  ],
  input: {
    dir: out,
    words: Type.Optional(
      local(
        Type.String({ description: 'text file whose distinct words, split at white space, are the vocabulary' }),
        'only',
        {
          value: 'file',
        },
      ),
    ),
    text: Type.Optional(
      local(
        Type.Array(Type.String(), {
          minItems: 1,
          description: 'train a tokenizer on these: plain text, or chats with {"messages": […]} on each line',
        }),
        'only',
        { value: 'files...' },
      ),
    ),
    vocab: defaulted(Type.Integer({ minimum: 1, description: 'maximum vocabulary size of a trained tokenizer' }), 4096),
    min_frequency: defaulted(
      Type.Integer({ minimum: 1, description: 'minimum count of a pair that becomes a token' }),
      2,
    ),
    config: Type.Optional(written(Config, { file: 'document', value: 'file' })),
    family: described(family, 'the family (default: llama)'),
    hidden: described(size, 'width of the residual stream (default: 128)'),
    layers: described(size, 'layers (default: 2)'),
    heads: described(size, 'attention heads (default: width / 32, from width 512 on width / 64)'),
    kv_heads: described(size, 'key-value heads (default: the number of heads)'),
    head_dim: described(size, 'width of one head (default: width / heads)'),
    ff: described(size, 'width of the feed-forward layer (default: 8/3 of the width)'),
    context: described(size, 'context length in tokens (default: 256; with text 1024)'),
    untied: defaulted(Type.Boolean({ description: 'use an output matrix separate from the embeddings' }), false),
    value_head: defaulted(
      Type.Boolean({ description: 'a head that gives one number, at first 0, in place of one that writes tokens' }),
      false,
    ),
    seed: defaulted(Type.Integer({ minimum: 0, description: 'random seed of the weights' }), 0),
  },
  output: Type.Object({
    ...{ checkpoint_id: text, directory: text, vocab_size: count, parameters: count },
    training_bytes: Type.Number({ description: 'memory that training all of them takes' }),
    texts: Type.Optional(Type.Array(Type.Object({ file: text, format: text, bytes: count }))),
    errors: Type.Optional(
      Type.Array(Type.Object({ file: text, line: count, expected: text, got: text }), {
        description: 'lines that were left out',
      }),
    ),
  }),
  scope: 'train',
  changes: true,
  alone: true,
  long: 'Tokens',
  run: async () => (await import('./model/new.ts')).newModel,
  text: async () => (await prints()).made,
  exit: ({ errors = [] }) => (errors.length > 0 ? EXIT.refused : EXIT.done),
});

export const info = operation({
  name: 'model.info',
  about: 'show what a model directory, an adapter or a weights file holds, and verify hashes',
  notes: 'Nothing in a file is ever run. A file is known by its contents, not by its name.',
  examples: [{ path: './model' }, { path: './model/model.safetensors', tensors: true }, { path: './onnx/model.onnx' }],
  input: {
    path: local(
      Type.String({
        description:
          'directory of a checkpoint, a model in the Hugging Face layout or an adapter; or a .safetensors or .onnx file',
      }),
      'only',
      { position: true },
    ),
    tensors: defaulted(Type.Boolean({ description: 'list every tensor' }), false),
  },
  output: Type.Object(
    {
      kind: Type.Enum(['model', 'adapter', 'safetensors', 'onnx']),
      ...{ parameters: Type.Number(), bytes: Type.Number() },
      tensor_list: Type.Optional(
        Type.Array(Type.Object({ name: text, dtype: text, shape: Type.Array(count), bytes: count })),
      ),
    },
    { additionalProperties: true },
  ),
  scope: 'read',
  changes: false,
  alone: true,
  run: async () => (await import('./model/info.ts')).info,
  text: async () => (await prints()).described,
});

export const merge = operation({
  name: 'model.merge',
  about: 'merge an adapter into the model it was trained on',
  examples: [{ model: './base', adapter: './adapter', out: './merged' }],
  input: {
    model: folder('the model it was trained on'),
    adapter: folder('directory with adapter_config.json and adapter_model.safetensors'),
    out,
  },
  output: Type.Object({ checkpoint_id: text, directory: text, base: text, adapter: json }),
  scope: 'train',
  changes: true,
  alone: true,
  run: async () => (await import('./model/merge.ts')).merge,
  text: async () => (await prints()).merged,
});

const exportModel = operation({
  name: 'model.export',
  about: 'write a model as safetensors in the Hugging Face layout, or as one ONNX file',
  notes:
    'hf writes config.json, model.safetensors (or shards and their index), tokenizer and chat template. onnx writes the same but for the weights, which are in model.onnx: input_ids [batch, sequence] int64 in, logits [batch, sequence, vocabulary] out, rows padded on the right. It is in 32-bit floats and holds less than 2 GiB.',
  examples: [
    { model: './model', out: './for-others', dtype: 'bf16', max_shard: 2 ** 31 },
    { model: './model', out: './onnx', format: 'onnx' },
  ],
  input: {
    model: folder('a checkpoint, or any model in the Hugging Face layout'),
    out,
    format: defaulted(Type.Enum(['hf', 'onnx'], { description: 'hf, or onnx for ONNX Runtime' }), 'hf'),
    dtype: defaulted(
      Type.Enum(['f32', 'f16', 'bf16'], { description: 'how weights are stored; 16 bits round to nearest' }),
      'f32',
    ),
    max_shard: Type.Optional(
      written(
        Type.Integer({ minimum: 1, description: 'bytes of one safetensors file at most, such as 500MB or 2GiB' }),
        { value: 'size', parse: bytesOf, text: (bytes) => bytesText(bytes).replace(' ', '') },
      ),
    ),
  },
  output: Type.Object({
    ...{ checkpoint_id: text, directory: text, format: text, dtype: text, bytes: count },
    files: Type.Record(Type.String(), Type.Integer(), { description: 'bytes of each' }),
  }),
  scope: 'train',
  changes: true,
  alone: true,
  run: async () => (await import('./model/export.ts')).exportModel,
  text: async () => (await prints()).exported,
});

export { exportModel as export, newModel as new };
