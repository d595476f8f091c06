/** The model both members share, small enough to be trained on one processor core: 408,064 parameters over 95 words. */
import { END, PAD, SPECIAL_TOKENS, WORDS } from './language.ts';

/** All contents joined by single spaces; the model's own answers end with the end token. */
const CHAT_TEMPLATE =
  "{% for message in messages %}{% if not loop.first %}{{ ' ' }}{% endif %}{{ message.content }}" +
  `{% if message.role == 'assistant' %}{{ ' ${END}' }}{% endif %}{% endfor %}`;

export const MODEL_SPEC = {
  words: WORDS,
  special_tokens: SPECIAL_TOKENS,
  eos_token: END,
  pad_token: PAD,
  chat_template: CHAT_TEMPLATE,
  config: {
    model_type: 'llama',
    vocab_size: SPECIAL_TOKENS.length + WORDS.length,
    hidden_size: 128,
    intermediate_size: 344,
    num_hidden_layers: 2,
    num_attention_heads: 4,
    num_key_value_heads: 4,
    max_position_embeddings: 64,
    rms_norm_eps: 1e-6,
    rope_theta: 10_000,
    tie_word_embeddings: true,
  },
} as const;
