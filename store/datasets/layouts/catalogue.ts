/** Every layout that a dataset can be exported in. */
import { adp } from './adp.ts';
import { anthropic } from './anthropic.ts';
import { atif } from './atif.ts';
import { axolotl } from './axolotl.ts';
import { everything } from './everything.ts';
import type { Layout } from './layout.ts';
import { llamaFactoryDpo } from './llama-factory-dpo.ts';
import { llamaFactorySft } from './llama-factory-sft.ts';
import { openaiDpo } from './openai-dpo.ts';
import { openaiSft } from './openai-sft.ts';
import { primeRlSft } from './prime-rl-sft.ts';
import { trlPreference } from './trl-preference.ts';
import { trlPrompts } from './trl-prompts.ts';
import { trlSft } from './trl-sft.ts';
import { trlStepwise } from './trl-stepwise.ts';
import { trlTokens } from './trl-tokens.ts';
import { trlUnpaired } from './trl-unpaired.ts';
import { verlRl } from './verl-rl.ts';
import { verlSft } from './verl-sft.ts';

export const LAYOUTS: readonly Layout[] = [
  trlSft,
  trlPreference,
  trlUnpaired,
  trlPrompts,
  trlStepwise,
  trlTokens,
  openaiSft,
  openaiDpo,
  llamaFactorySft,
  llamaFactoryDpo,
  axolotl,
  verlRl,
  verlSft,
  primeRlSft,
  anthropic,
  atif,
  adp,
  everything,
];
