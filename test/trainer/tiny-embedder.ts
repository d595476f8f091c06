/** An embedding model small enough to be computed by hand: a token's vector is its row of a table. Files as sentence-transformers writes them. */

import { wordTokenizer } from '../../trainer/model/tokens/tokenizer.ts';
import { lower, type OnnxGraph, type OnnxTensor } from '../../trainer/tensor/lower.ts';
import { type Dim, times, type Value } from '../../trainer/tensor/node.ts';
import { writeOnnx } from '../../trainer/tensor/onnx.ts';
import {
  constant,
  divide,
  expand,
  gatherRows,
  input,
  multiply,
  reshape,
  sum,
} from '../../trainer/tensor/operations.ts';
import { randomStream } from '../../trainer/tensor/random.ts';

export const WORDS = ['what', 'is', 'one', 'two', 'three', 'plus', 'minus', 'tank', 'pipe'];
const SPECIAL = ['[PAD]', '[UNK]', '[CLS]', '[SEP]'];
const SIZE = 5;
const [B, L] = ['batch', 'sequence'];

export type TinyEmbedder = {
  /** By path in the model's directory. */
  readonly files: Readonly<Record<string, string | Uint8Array>>;
  /** One row of `size` a token. */
  readonly table: Float32Array;
  readonly size: number;
  readonly begin: number;
  readonly end: number;
};

export type TinyOptions = {
  readonly table?: Float32Array;
  readonly maxTokens?: number;
  readonly tokenTypes?: boolean;
  readonly ids?: 'int32' | 'int64';
  /** Gives sentence_embedding, not of length 1, in place of a vector for each token. */
  readonly sentence?: boolean;
  readonly path?: string;
  readonly output?: string;
  readonly pooling?: object;
};

export function tinyEmbedder(options: TinyOptions = {}): TinyEmbedder {
  const rows = SPECIAL.length + WORDS.length;
  const random = randomStream(8);
  const table = options.table ?? Float32Array.from({ length: rows * SIZE }, () => random.normal());
  const files = wordTokenizer(WORDS, SPECIAL, { pad: '[PAD]', unk: '[UNK]' });
  const [begin, end] = [SPECIAL.indexOf('[CLS]'), SPECIAL.indexOf('[SEP]')];
  const around = {
    type: 'TemplateProcessing',
    single: [
      { SpecialToken: { id: '[CLS]', type_id: 0 } },
      { Sequence: { id: 'A', type_id: 0 } },
      { SpecialToken: { id: '[SEP]', type_id: 0 } },
    ],
    pair: [],
    special_tokens: {
      '[CLS]': { id: '[CLS]', ids: [begin], tokens: ['[CLS]'] },
      '[SEP]': { id: '[SEP]', ids: [end], tokens: ['[SEP]'] },
    },
  };
  return {
    table,
    size: SIZE,
    begin,
    end,
    files: {
      [options.path ?? 'model.onnx']: writeOnnx(graphOf(table, rows, options)),
      'tokenizer.json': JSON.stringify({ ...files.tokenizer, post_processor: around }),
      'tokenizer_config.json': JSON.stringify(files.config),
      ...(options.maxTokens
        ? { 'sentence_bert_config.json': JSON.stringify({ max_seq_length: options.maxTokens }) }
        : {}),
      ...(options.pooling ? { '1_Pooling/config.json': JSON.stringify(options.pooling) } : {}),
    },
  };
}

function graphOf(table: Float32Array, rows: number, options: TinyOptions): OnnxGraph {
  const ids = input('input_ids', [B, L] as Dim[], 'int32');
  const states = reshape(gatherRows(constant(table, [rows, SIZE]), reshape(ids, [times(B!, L!)])), [
    B,
    L,
    SIZE,
  ] as Dim[]);
  const name = options.output ?? (options.sentence ? 'sentence_embedding' : 'last_hidden_state');
  const mask = input('mask', [B, L, 1] as Dim[]);
  const mean = (): Value => {
    const wide = expand(mask, [B, L, SIZE] as Dim[]);
    return divide(sum(multiply(states, wide), [1]), sum(wide, [1]));
  };
  const graph = lower({ [name]: options.sentence ? mean() : states });
  const type = options.ids ?? 'int64';
  const port = (of: string) => ({ name: of, type, shape: [B, L] as Dim[] });
  const last: OnnxTensor = { name: 'last', dims: [1], data: BigInt64Array.of(2n) };
  const columns = [
    { op: 'Cast', domain: '', inputs: ['attention_mask'], outputs: ['mask.flat'], attributes: { to: { int: 1 } } },
    { op: 'Unsqueeze', domain: '', inputs: ['mask.flat', 'last'], outputs: ['mask'], attributes: {} },
  ];
  return {
    ...graph,
    nodes: [...columns, ...graph.nodes],
    constants: [...graph.constants, last],
    inputs: ['input_ids', 'attention_mask', ...(options.tokenTypes ? ['token_type_ids'] : [])].map(port),
  };
}
