/** `troupe/method`: what a method of a user's own is made of. */
export { Type } from 'typebox';
export { credit, type Judgement, reward, score, verdictOn } from '../judging/judgement.ts';
export { type Method, method } from './method.ts';
export { mean } from './statistics.ts';
