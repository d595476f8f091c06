import { cutsOfSamples } from './support/split-files.ts';

cutsOfSamples(16);
